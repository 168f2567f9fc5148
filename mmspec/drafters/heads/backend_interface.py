"""The interface that heads need of a backend besides `Framework`: a cached layer, and tensors.

`mmspec.drafters.heads.modules`, `expanders` and `forwards` use it and serve every backend.

Shape letters: n rows, B block rows, C columns that block rows see, H width.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mmspec.checkpoints.head_manifest import LAYER
from mmspec.decoding.ensemble import DraftTail
from mmspec.decoding.layers import LayerParts, LayerTensors
from mmspec.drafters.heads.cached_layer import CachedLayer
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Enter, Positions


class Sight(NamedTuple):
    """The columns that a block's rows see in one layer: of the context, then the block's own."""

    first: int
    """The first column that any row sees."""
    visible: NDArray[np.bool_] | None
    """[B, C] row by column from `first` on; None if every row sees all of them."""


class InjectedLayers(Protocol[A]):
    """Decoder layers with a cache of context: rows whose keys and values every layer has."""

    def remember(self, context: A, start: int, positions: Positions) -> None:
        """Write context rows [n, H], at rotary positions [3, n], to columns `start` on.

        A layer's keys and values are its projections of the rows themselves.
        """

    def settle(self) -> None:
        """Start computing the context, so that lazily evaluated work does not pile up."""

    def block(
        self, x: A, context: A, start: int, positions: Positions, sights: Sequence[Sight]
    ) -> A:
        """Outputs [B, H] of block rows x, which see context and block as each layer's sight says.

        Writes context rows [n, H] to columns `start` on, then the block's, which nobody keeps.
        positions: rotary positions [3, n + B].  x may be overwritten.
        """


class Parts(Generic[A]):
    """A head's tensors by their paths in `mmspec.checkpoints.head_manifest`, and layers of them."""

    def __init__(
        self,
        weights: LayerTensors[A],
        layer_type: type[LayerParts[A]],
        new_decoder: Callable[[list[Any], TextConfig, Any], Any],
        new_injected: Callable[[Any], InjectedLayers[A]],
        open_tail: Callable[[Any, Any, int, int], DraftTail[A]],
    ) -> None:
        """new_decoder: makes the backend's decoder of layers.  new_injected: of a decoder.

        open_tail: as `CachedLayer.tail`, of a decoder and a cache.
        """
        self._weights, self.framework = weights, weights.framework
        self.tensor, self.linear, self.norm = weights.tensor, weights.linear, weights.norm
        self._layer_type, self._new_decoder = layer_type, new_decoder
        self._new_injected, self._open_tail = new_injected, open_tail

    def layer(self, text: TextConfig, enter: Enter[A]) -> Callable[[], CachedLayer[A]]:
        """Take the decoder layer; returns a function that opens it with an empty cache.

        enter: what its attention reads of the input, and what is added to the attention's output.
        """
        layer = self._layer_type.take(self._weights, LAYER, text, enter=enter)
        decoder = self._new_decoder([layer], text, self._weights)
        return partial(CachedLayer, decoder, partial(self._open_tail, decoder))

    def injected(self, text: TextConfig) -> Callable[[], InjectedLayers[A]]:
        """Take the decoder layers; returns a function that opens them with an empty cache."""
        paths = (f"layers.{index}" for index in range(text.num_hidden_layers))
        layers = [self._layer_type.take(self._weights, path, text) for path in paths]
        return partial(self._new_injected, self._new_decoder(layers, text, self._weights))
