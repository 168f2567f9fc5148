"""The KV cache of R rows that are fed together."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import mlx.core as mx

from mmspec.decoding.delta_states import DeltaStates
from mmspec.decoding.stored_states import STEP
from mmspec_mlx.device import device_io


class LayerCache(NamedTuple):
    """The part of a cache that one layer uses during a forward."""

    keys_values: mx.array
    """[2 R, heads, columns, width] the keys of all rows, then the values."""
    start: int
    """The first column that the forward writes."""
    visible: int
    """The column after the last one that the forward sees."""
    first: int = 0
    """The first column that it sees."""

    def update(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Write keys and values [R, heads, n, width].

        Returns the keys and values of all visible columns, [R, heads, C, width].
        """
        keys_values, start, visible, first = self
        rows, end = len(keys), start + keys.shape[2]
        keys_values[:rows, :, start:end] = keys
        keys_values[rows:, :, start:end] = values
        return keys_values[:rows, :, first:visible], keys_values[rows:, :, first:visible]


LayerMemory = Any
"""A `LayerCache`, or the `DeltaMemory` of a recurrent layer."""


class Cache:
    """One array per layer, as in `LayerCache`: attention on a GPU would copy rows that lie apart.

    The owner knows how many columns are valid, so rewinding changes nothing here.
    MLX writes in place while nothing else refers to the array, and copies it otherwise: callers
    must not keep views, nor pass the arrays to `mx.async_eval`. A forward that still runs refers to
    it too; whether a GPU copies between drafted steps, which nobody waits for, is not measured.
    """

    def __init__(
        self,
        layers: int,
        rows: int,
        heads: int,
        width: int,
        dtype: mx.Dtype,
        states: DeltaStates[mx.array] | None = None,
    ) -> None:
        """layers: number of those with keys and values; the others are in `states`."""
        self.states = states
        self._layers = [mx.zeros((2 * rows, heads, 0, width), dtype) for _ in range(layers)]
        mx.eval(*self._layers)  # another thread may feed the sequence
        self._copies: tuple[int, list[mx.array]] = 0, []

    @property
    def columns(self) -> int:
        """Number of allocated columns."""
        return self._layers[0].shape[2]

    def reserve(self, columns: int) -> None:
        """Allocate at least `columns` columns, keeping the content."""
        self._write_copies()
        if columns <= self.columns:
            return
        rows, heads, old, width = self._layers[0].shape
        shape = (rows, heads, -(-columns // STEP) * STEP - old, width)
        for index, layer in enumerate(self._layers):
            self._layers[index] = mx.concatenate([layer, mx.zeros(shape, layer.dtype)], axis=2)

    def _write_copies(self) -> None:
        """Write the copies that `gather` made of columns, after waiting until they are computed.

        MLX would copy the whole layer if a copy still had to read it.
        """
        start, parts = self._copies
        if parts:
            mx.eval(*parts)
        for layer, part in zip(self._layers, parts, strict=False):
            layer[:, :, start : start + part.shape[2]] = part
        self._copies = 0, []

    def layers(self, start: int, visible: int) -> Iterable[LayerMemory]:
        """Each layer's part of a forward that writes from `start` on and sees `visible` columns.

        Of a recurrent layer its memory, at `start`.
        """
        self.reserve(visible)
        caches = (LayerCache(layer, start, visible) for layer in self._layers)
        return self.states.layers_with(caches, start) if self.states else caches

    def read(self, start: int, stop: int) -> mx.array:
        """Return the keys and values [n, W] of columns in all layers."""
        self._write_copies()
        parts = [layer[:, :, start:stop].flatten(0, 1) for layer in self._layers]
        return mx.concatenate(parts, axis=0).swapaxes(0, 1).flatten(1)

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move the columns numbered `columns`, ascending and none below `start`, to `start` on."""
        index = mx.array(list(columns))
        self._copies = start, [mx.take(layer, index, axis=2) for layer in self._layers]
        device_io.start(*self._copies[1])

    def settle(self) -> None:
        """Wait until all writes are computed, and forget how to go back."""
        mx.eval(*self._layers, *(self.states.settle() if self.states else ()))
