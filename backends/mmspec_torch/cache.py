"""Keys and values of one sequence, or of R rows fed together."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from mmspec_torch.device import upload

STEP = 256
"""Columns by which a cache grows, so that memory follows use."""


class Written(Protocol):
    """What a forward writes to, a view of a buffer or what stands for one."""

    def copy_(self, values: Tensor, /) -> Tensor:
        """Write values [R, 2 * heads, n, D]."""
        ...


Layer = tuple[Written, Tensor, Tensor]
"""What a forward writes to [R, 2 * heads, n, D], heads of keys first, then those of values; and the
keys and the values that it attends to, each [R, heads, end, D].
"""


class Place(Protocol):
    """Where in a cache a forward writes and what it reads."""

    def open(self) -> list[Layer]:
        """Per layer, what is written and what is read."""
        ...


class Span(NamedTuple):
    """Columns of a cache that a forward writes; it reads all before `end`."""

    cache: "Cache"
    start: int
    end: int

    def open(self) -> list[Layer]:
        """Per layer, what is written and what is read."""
        return self.cache.open(self.start, self.end)


class Cache:
    """Columns of keys and values; which of them count, its owner knows.

    Rewinding is therefore nothing here: later columns are overwritten.
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
        """Start with no columns and no memory."""
        shape = (layers, rows, 2 * heads, 0, head_dim)
        self._buffer = torch.empty(shape, device=device, dtype=dtype)

    @property
    def rows(self) -> int:
        """R, rows fed together."""
        return self._buffer.shape[1]

    @property
    def columns(self) -> int:
        """Columns there is memory for."""
        return self._buffer.shape[3]

    def open(self, start: int, end: int) -> list[Layer]:
        """Per layer, the columns from `start` to `end` to write and those before `end` to read."""
        if end > self.columns:
            self._grow(end)
        written = self._buffer.narrow(3, start, end - start)
        keys, values = self._buffer.narrow(3, 0, end).chunk(2, dim=2)  # of all layers at once
        return list(zip(written.unbind(), keys.unbind(), values.unbind(), strict=True))

    @torch.inference_mode()
    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Copy m columns to where those from `start` on are; the columns ascend, none before it."""
        chosen = upload(columns, torch.int64, self._buffer.device)
        kept = self._buffer.index_select(3, chosen)
        self._buffer.narrow(3, start, len(columns)).copy_(kept)

    def _grow(self, end: int) -> None:
        layers, rows, heads, columns, head_dim = self._buffer.shape
        wider = -(-end // STEP) * STEP
        buffer = self._buffer.new_empty(layers, rows, heads, wider, head_dim)
        buffer[:, :, :, :columns] = self._buffer
        self._buffer = buffer
