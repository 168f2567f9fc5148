"""The modules of a head, from its tensors."""

from collections.abc import Callable
from functools import partial

import mlx.core as mx

from mmspec.checkpoints.head_manifest import LAYER
from mmspec.drafters.heads.cached_layer import CachedLayer
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import Enter
from mmspec_mlx.device.weights import Weights
from mmspec_mlx.heads.injected_layers import InjectedLayers
from mmspec_mlx.network.cache import Cache
from mmspec_mlx.network.decoder import Decoder, DecoderLayer
from mmspec_mlx.sequence.draft_tail import MlxDraftTail


class MlxParts:
    """Implements `mmspec.drafters.heads.backend_interface.Parts`."""

    def __init__(self, weights: Weights) -> None:
        self._weights, self.framework = weights, weights.framework
        self.tensor, self.linear = weights.tensor, weights.linear
        self.norm, self.heads_norm = weights.norm, weights.heads_norm

    def layer(
        self, text: TextConfig, enter: Enter[mx.array]
    ) -> Callable[[], CachedLayer[mx.array]]:
        """Take the decoder layer; returns a function that opens a cache for it."""
        layer = DecoderLayer.take(self._weights, LAYER, text, enter=enter)
        decoder = Decoder([layer], text, self._weights)
        return partial(CachedLayer, decoder, partial(_open_tail, decoder))

    def injected(self, text: TextConfig) -> Callable[[], InjectedLayers]:
        """Take the decoder layers; returns a function that opens a cache of context for them."""
        paths = (f"layers.{index}" for index in range(text.num_hidden_layers))
        layers = [DecoderLayer.take(self._weights, path, text) for path in paths]
        return partial(InjectedLayers, Decoder(layers, text, self._weights))


def _open_tail(decoder: Decoder, cache: Cache, columns: int, position: int) -> MlxDraftTail:
    return MlxDraftTail(decoder, cache, None, columns, [position])
