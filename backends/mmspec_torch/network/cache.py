"""The KV cache of R rows that are fed together."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.delta_states import DeltaStates
from mmspec.decoding.stored_states import STEP
from mmspec_torch.device.device_io import upload

Write = Callable[[Tensor], object]
"""Function that stores keys and values [R, 2 * heads, n, D], keys first."""


class LayerCache(NamedTuple):
    """The part of a cache that one layer writes and sees during a forward."""

    write: Write
    keys: Tensor
    """[R, heads, C, D] of all columns that the forward sees, as `values`."""
    values: Tensor


LayerMemory = Any
"""A `LayerCache`, or the `DeltaMemory` of a recurrent layer."""


class Cache:
    """Keys and values of every layer by column.

    The owner knows how many columns are valid, so rewinding costs nothing: later columns are
    overwritten.
    """

    step: int = STEP

    def __init__(
        self,
        layers: int,
        rows: int,
        heads: int,
        head_dim: int,
        device: torch.device,
        dtype: torch.dtype,
        states: DeltaStates[Tensor] | None = None,
    ) -> None:
        """layers: number of those with keys and values; the others are in `states`."""
        self.states, self.rows = states, rows
        shape = (layers, rows, 2 * heads, 0, head_dim)
        self._buffer = torch.empty(shape, device=device, dtype=dtype)

    @property
    def columns(self) -> int:
        """Number of allocated columns."""
        return self._buffer.shape[3]

    def layers(self, start: int, end: int, visible: int | None = None) -> list[LayerMemory]:
        """For each layer, the columns `start` to `end` to write and the first `visible` to see.

        visible: None for all before `end`.  Of a recurrent layer its memory, at `start`.
        """
        visible = visible or end
        self.reserve(visible)
        parts = self._buffer.narrow(3, start, end - start).unbind()
        caches = self._layers([part.copy_ for part in parts], visible)
        return self.states.layers_with(caches, start) if self.states else caches

    def _layers(self, writes: Iterable[Write], visible: int) -> list[LayerMemory]:
        """For each layer, how it writes, and the first `visible` columns, which it sees."""
        keys, values = self._buffer.narrow(3, 0, visible).chunk(2, dim=2)  # of all layers at once
        return list(map(LayerCache, writes, keys.unbind(), values.unbind()))

    def read(self, start: int, stop: int) -> Tensor:
        """Return the keys and values [n, W] of columns in all layers."""
        return self._buffer[:, 0, :, start:stop].permute(2, 0, 1, 3).flatten(1)

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move `columns`, ascending numbers from `start` or later, to `start` onwards."""
        index = upload(columns, torch.int64, self._buffer.device)
        selection = self._buffer.index_select(3, index)
        self._buffer.narrow(3, start, len(columns)).copy_(selection)

    def settle(self) -> None:
        """Forget how to go back; PyTorch is not lazy."""
        if self.states:
            self.states.settle()

    def reserve(self, end: int) -> None:
        """Allocate at least `end` columns; new ones are zeros, as masks do not hide a NaN."""
        if end > self.columns:
            wider = -(-end // self.step) * self.step
            self._buffer = F.pad(self._buffer, (0, 0, 0, wider - self.columns))
