"""A KV cache at a fixed address, indexed by column numbers on the device."""

from typing import NamedTuple

from torch import Tensor

from mmspec_torch.network.cache import Cache, LayerCache

STEP = 1024
"""Number of columns by which a static cache grows; forwards see a multiple of it."""


class StaticLayer(NamedTuple):
    """Implements `LayerCache` with column numbers [n] on the device."""

    buffer: Tensor
    """[R, 2 * heads, columns, D] keys, then values."""
    columns: Tensor
    keys: Tensor
    values: Tensor

    @property
    def rows(self) -> int:
        """The number of rows R."""
        return self.keys.shape[0]

    def update(self, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new keys and values; returns those of all columns that the forward sees."""
        self.buffer.index_copy_(2, self.columns, keys_values)
        return self.keys, self.values


class StaticCache(Cache):
    """A cache whose columns keep their address until it grows.

    Forwards see unused columns too, hidden by a mask. A NaN would show through the mask, so new
    columns are zeros.
    """

    step: int = STEP

    def reach(self, end: int) -> int:
        """Allocate columns up to `end`; returns how many a forward sees, a multiple of `step`."""
        if end > self.columns:
            self._grow(end)
        return -(-end // self.step) * self.step

    def static_layers(self, columns: Tensor, width: int) -> list[LayerCache]:
        """For each layer, the part of the cache: columns [n] to write, the first `width` to see."""
        keys, values = self._buffer.narrow(3, 0, width).chunk(2, dim=2)
        parts = zip(self._buffer.unbind(), keys.unbind(), values.unbind(), strict=True)
        return [StaticLayer(buffer, columns, *views) for buffer, *views in parts]

    def _grow(self, end: int) -> None:
        layers, rows, heads, columns, head_dim = self._buffer.shape
        wider = -(-end // self.step) * self.step
        buffer = self._buffer.new_zeros(layers, rows, heads, wider, head_dim)
        buffer[:, :, :, :columns] = self._buffer
        self._buffer = buffer


class StaticSpan(NamedTuple):
    """Implements `mmspec_torch.network.cache.Span` with columns [n] of a static cache."""

    cache: StaticCache
    columns: Tensor
    width: int

    def layers(self) -> list[LayerCache]:
        """The part of the cache that each layer writes and sees."""
        return self.cache.static_layers(self.columns, self.width)
