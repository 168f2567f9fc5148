"""Keys and values of R rows in shared columns."""

from collections.abc import Sequence

import mlx.core as mx

from mmspec_mlx import host

STEP = 256
"""Columns by which a cache grows, so that memory follows use."""


class Cache:
    """One array [R, keys then values, columns, width] per layer, written in place.

    Which columns are valid is the owner's integer; nothing here has to be rolled back.
    MLX reuses a layer's buffer for the next write as long as nobody else holds the array: views
    must not be kept, and the arrays must not be given to `mx.async_eval`.
    """

    def __init__(self, layers: int, rows: int, heads: int, width: int, dtype: mx.Dtype) -> None:
        """Hold nothing yet: no column is reserved."""
        self._heads = heads
        self._layers = [mx.zeros((rows, 2 * heads, 0, width), dtype) for _ in range(layers)]
        self._moved: tuple[int, list[mx.array]] = 0, []

    @property
    def columns(self) -> int:
        """Columns there is room for."""
        return self._layers[0].shape[2]

    def reserve(self, columns: int) -> None:
        """Make room for at least `columns`, keeping what is there."""
        self._place_moved()
        if columns <= self.columns:
            return
        rows, heads, old, width = self._layers[0].shape
        shape = (rows, heads, -(-columns // STEP) * STEP - old, width)
        for index, layer in enumerate(self._layers):
            self._layers[index] = mx.concatenate([layer, mx.zeros(shape, layer.dtype)], axis=2)

    def _place_moved(self) -> None:
        """Write what was gathered, which is done by now or nearly so.

        MLX would copy a whole layer that is written while somebody still reads it.
        """
        start, parts = self._moved
        if parts:
            mx.eval(*parts)
        for layer, part in zip(self._layers, parts, strict=False):
            layer[:, :, start : start + part.shape[2]] = part
        self._moved = 0, []

    def write(
        self, layer: int, at: int, keys: mx.array, values: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Store keys and values [R, heads, n, width] from column `at` on.

        Returns views of all keys and values up to them [R, heads, at + n, width].
        """
        end, heads, both = at + keys.shape[2], self._heads, self._layers[layer]
        both[:, :heads, at:end] = keys
        both[:, heads:, at:end] = values
        return both[:, :heads, :end], both[:, heads:, :end]

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Copy m columns to where those from `start` on are; the columns ascend, none before it."""
        chosen = mx.array(list(columns))
        self._moved = start, [mx.take(layer, chosen, axis=2) for layer in self._layers]
        host.start(*self._moved[1])

    def settle(self) -> None:
        """Wait until everything written is computed."""
        mx.eval(*self._layers)
