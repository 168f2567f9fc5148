"""The KV cache of R rows that are fed together."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from mmspec.decoding.block_attention import whole_blocks
from mmspec_torch.device.device_io import upload

STEP = 256
"""Number of columns by which a cache grows at a time."""


class LayerCache(Protocol):
    """The part of a cache that one layer uses during a forward."""

    @property
    def rows(self) -> int:
        """The number of rows R."""

    def update(self, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values [R, 2 * heads, n, D], keys first.

        Returns all keys and values to attend to, each [R, heads, end, D].
        """


class Span(Protocol):
    """The cache columns that a forward writes and sees."""

    def layers(self) -> "list[LayerCache]":
        """The part of the cache that each layer writes and sees."""


class LayerSpan(NamedTuple):
    """Implements `LayerCache` with views of a buffer."""

    written: Tensor
    keys: Tensor
    values: Tensor

    @property
    def rows(self) -> int:
        """The number of rows R."""
        return self.keys.shape[0]

    def update(self, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new keys and values; returns those of all columns so far."""
        self.written.copy_(keys_values)
        return self.keys, self.values


class CacheSpan(NamedTuple):
    """The cache columns of a forward that writes `start` to `end` and sees all before `end`."""

    cache: "Cache"
    start: int
    end: int

    def layers(self) -> list[LayerCache]:
        """The part of the cache that each layer writes and sees."""
        return self.cache.layers(self.start, self.end, self.end)


class BlockSpan(CacheSpan):
    """A forward that also sees the columns up to the end of a block, whose content is finite."""

    def layers(self) -> list[LayerCache]:
        """The part of the cache that each layer writes and sees."""
        return self.cache.layers(self.start, self.end, whole_blocks(self.end))


class Cache:
    """Keys and values of every layer by column.

    The owner knows how many columns are valid, so rewinding costs nothing: later columns are
    overwritten.
    """

    def __init__(
        self,
        layers: int,
        rows: int,
        heads: int,
        head_dim: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        shape = (layers, rows, 2 * heads, 0, head_dim)
        self._buffer = torch.empty(shape, device=device, dtype=dtype)

    @property
    def rows(self) -> int:
        """The number of rows R."""
        return self._buffer.shape[1]

    @property
    def columns(self) -> int:
        """Number of allocated columns."""
        return self._buffer.shape[3]

    def layers(self, start: int, end: int, visible: int) -> list[LayerCache]:
        """For each layer, the columns `start` to `end` to write and the first `visible` to see."""
        if visible > self.columns:
            self._grow(visible)
        written = self._buffer.narrow(3, start, end - start)
        keys, values = self._buffer.narrow(3, 0, visible).chunk(2, dim=2)  # of all layers at once
        parts = zip(written.unbind(), keys.unbind(), values.unbind(), strict=True)
        return [LayerSpan(*part) for part in parts]

    def read(self, start: int, stop: int) -> Tensor:
        """Return the keys and values [n, W] of columns in all layers."""
        return self._buffer[:, 0, :, start:stop].permute(2, 0, 1, 3).flatten(1)

    @torch.inference_mode()
    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move `columns`, ascending numbers from `start` or later, to `start` onwards."""
        chosen = upload(columns, torch.int64, self._buffer.device)
        selection = self._buffer.index_select(3, chosen)
        self._buffer.narrow(3, start, len(columns)).copy_(selection)

    def settle(self) -> None:
        """Do nothing: PyTorch is not lazy."""

    def _grow(self, end: int) -> None:
        layers, rows, heads, columns, head_dim = self._buffer.shape
        wider = -(-end // STEP) * STEP
        buffer = self._buffer.new_zeros(layers, rows, heads, wider, head_dim)
        buffer[:, :, :, :columns] = self._buffer
        self._buffer = buffer
