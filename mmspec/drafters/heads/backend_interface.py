"""The interface that heads need of a backend besides `Framework`: a cached layer, and tensors.

`mmspec.drafters.heads.modules`, `forwards` and `block` use it and serve every backend.

Shape letters: n rows, H width.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Generic

from mmspec.checkpoints.head_manifest import LAYER
from mmspec.decoding.contents import chunks
from mmspec.decoding.ensemble import DraftTail
from mmspec.decoding.layers import LayerParts, LayerTensors
from mmspec.decoding.stored_states import LayerCaches
from mmspec.drafters.heads.injected_layers import InjectedLayers
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Enter, Positions


class CachedLayer(Generic[A]):
    """A decoder layer with its own cache over one sequence."""

    def __init__(self, decoder: Any, open_tail: Callable[[Any, int, int], DraftTail[A]]) -> None:
        """decoder: the backend's, of one layer.  open_tail: as `tail`, of a cache."""
        self._decoder, self._open_tail = decoder, open_tail
        self._cache: LayerCaches[A] = decoder.new_cache(rows=1)

    def append(self, x: A, start: int, positions: Positions | None = None) -> A:
        """Feed rows [n, H] to columns `start` on; each attends to itself and all before it.

        An EAGLE-3 head's rows are [n, 2 H].  x may be overwritten.  positions: rotary positions
        [3, n]; None if they are the columns. Returns the output [1, H] of the last row.
        """
        last = x
        for low, high in chunks(0, len(x)):
            places = None if positions is None else positions[:, low:high]
            last = self._decoder.append(x[low:high], self._cache, start + low, places)
        return last[-1:]

    def settle(self) -> None:
        """Wait until the cache is computed, so that lazily evaluated work does not pile up."""
        self._cache.settle()

    def tail(self, columns: int, position: int) -> DraftTail[A]:
        """Start a draft after the first `columns` columns, at the rotary position `position`."""
        return self._open_tail(self._cache, columns, position)


class Parts(Generic[A]):
    """A head's tensors by their paths in `mmspec.checkpoints.head_manifest`, and layers of them."""

    def __init__(
        self,
        weights: LayerTensors[A],
        layer_type: type[LayerParts[A]],
        new_decoder: Callable[[list[Any], TextConfig, Any], Any],
        new_injected_layers: Callable[[Any], InjectedLayers[A]],
        open_tail: Callable[[Any, Any, int, int], DraftTail[A]],
    ) -> None:
        """new_decoder: makes the backend's decoder of layers.

        new_injected_layers: makes a decoder's `InjectedLayers`.  open_tail: as `CachedLayer.tail`,
        of a decoder and a cache.
        """
        self._weights, self.framework = weights, weights.framework
        self.tensor, self.linear, self.norm = weights.tensor, weights.linear, weights.norm
        self._layer_type, self._new_decoder = layer_type, new_decoder
        self._new_injected_layers, self._open_tail = new_injected_layers, open_tail

    def layer(self, text: TextConfig, enter: Enter[A]) -> Callable[[], CachedLayer[A]]:
        """Take the decoder layer; returns a function that opens it with an empty cache.

        enter: what its attention reads of the input, and what is added to the attention's output.
        """
        layer = self._layer_type.take(self._weights, LAYER, text, enter=enter)
        decoder = self._new_decoder([layer], text, self._weights)
        return partial(CachedLayer, decoder, partial(self._open_tail, decoder))

    def injected_layers(self, text: TextConfig) -> Callable[[], InjectedLayers[A]]:
        """Take the decoder layers; returns a function that opens them with an empty cache."""
        paths = (f"layers.{index}" for index in range(text.num_hidden_layers))
        layers = [self._layer_type.take(self._weights, path, text) for path in paths]
        return partial(self._new_injected_layers, self._new_decoder(layers, text, self._weights))
