"""A cache in a fixed place, written to and read by numbers that the device holds."""

from typing import NamedTuple

from torch import Tensor

from mmspec_torch.cache import Cache, Layer

STEP = 1024
"""Columns by which a cache grows, and by which forwards see more of it."""


class Slots:
    """Columns of a buffer to write; which, the device knows."""

    def __init__(self, buffer: Tensor, columns: Tensor) -> None:
        """Write to columns [n] of a buffer [R, 2 * heads, C, D]."""
        self._buffer, self._columns = buffer, columns

    def copy_(self, values: Tensor, /) -> Tensor:
        """Write values [R, 2 * heads, n, D]."""
        return self._buffer.index_copy_(2, self._columns, values)


class StaticCache(Cache):
    """Columns that stay where they are until there are more of them than memory for them.

    Forwards see columns that do not count, hidden by a mask, and so no column may hold what is
    not a number: new ones are zeros.
    """

    step: int = STEP

    def reach(self, end: int) -> int:
        """Have memory for `end` columns; returns how many a forward sees, a multiple of `step`."""
        if end > self.columns:
            self._grow(end)
        return -(-end // self.step) * self.step

    def slots(self, columns: Tensor, width: int) -> list[Layer]:
        """Per layer, columns [n] to write and the first `width` to read."""
        keys, values = self._buffer.narrow(3, 0, width).chunk(2, dim=2)
        written = (Slots(layer, columns) for layer in self._buffer.unbind())
        return list(zip(written, keys.unbind(), values.unbind(), strict=True))

    def _grow(self, end: int) -> None:
        layers, rows, heads, columns, head_dim = self._buffer.shape
        wider = -(-end // self.step) * self.step
        buffer = self._buffer.new_zeros(layers, rows, heads, wider, head_dim)
        buffer[:, :, :, :columns] = self._buffer
        self._buffer = buffer


class Columns(NamedTuple):
    """Implements `mmspec_torch.cache.Place`: columns [n] of a static cache, `width` of it seen."""

    cache: StaticCache
    columns: Tensor
    width: int

    def open(self) -> list[Layer]:
        """Per layer, what is written and what is read."""
        return self.cache.slots(self.columns, self.width)
