"""Decoder layers whose attention reads rows of context besides their own, for every backend.

Shape letters: n rows of context, B block rows, C columns that block rows see, H width.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec.decoding.contents import chunks
from mmspec.ground.arrays import A, Positions

Visible = NDArray[np.bool_]


class Sight(NamedTuple):
    """The columns that a block's rows see in one layer: of the context, then the block's own."""

    first: int
    """The first column that any row sees."""
    visible: Visible | None
    """[B, C] row by column from `first` on; None if every row sees all of them."""


class InjectedLayers(ABC, Generic[A]):
    """Decoder layers with a cache of context: rows of which each layer makes keys and values."""

    def __init__(self, decoder: Any) -> None:
        """decoder: of the layers, with the backend's caches and rotary positions."""
        self._decoder, self._cache = decoder, decoder.new_cache(rows=1)

    def remember(self, context: A, start: int, positions: Positions) -> None:
        """Write context rows [n, H], at rotary positions [3, n], to columns `start` on.

        A layer's keys and values are its projections of the rows themselves.
        """
        for low, high in chunks(0, len(context)):
            rotate = self._decoder.rotary.planes(positions[None, :, low:high])
            parts = self._cache.layers(start + low, start + high)
            for layer, cache in zip(self._decoder.layers, parts, strict=True):
                self._write(layer, self._batch(context[low:high]), rotate, cache)

    def settle(self) -> None:
        """Start computing the context, so that lazily evaluated work does not pile up."""
        self._cache.settle()

    def block(
        self, x: A, context: A, start: int, positions: Positions, sights: Sequence[Sight]
    ) -> A:
        """Outputs [B, H] of block rows x, which see context and block as each layer's sight says.

        Writes context rows [n, H] to columns `start` on, then the block's, which nobody keeps.
        positions: rotary positions [3, n + B].  x may be overwritten.
        """
        rotate = self._decoder.rotary.planes(positions[None])
        masks = {
            id(visible): None if visible is None else self._mask(visible, x)
            for _, visible in sights
        }
        parts = self._cache.layers(start, start + len(context) + len(x))
        x, context = self._batch(x), self._batch(context)
        for layer, cache, sight in zip(self._decoder.layers, parts, sights, strict=True):
            x = self._feed(layer, x, context, rotate, cache, sight.first, masks[id(sight.visible)])
        outputs: A = self._decoder.framework.xp.reshape(x, (-1, x.shape[-1]))
        return outputs

    def _batch(self, rows: A) -> A:
        """Rows [n, H] as the backend's layers take them."""
        return rows

    @abstractmethod
    def _write(self, layer: Any, rows: A, rotate: Any, cache: Any) -> None:
        """Write the keys and values of a batch, turned by `rotate`, to a layer's cache."""

    @abstractmethod
    def _mask(self, visible: Visible, like: A) -> A:
        """The mask to add to attention scores: 0 where `visible`, hiding elsewhere."""

    @abstractmethod
    def _feed(
        self, layer: Any, x: A, context: A, rotate: Any, cache: Any, low: int, mask: A | None
    ) -> A:
        """A layer's outputs for a batch of block rows, which see the columns from `low` on."""
