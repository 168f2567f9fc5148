"""The modules of a head, from its tensors."""

from collections.abc import Callable
from functools import partial

import mlx.core as mx

from mmspec.checkpoints.head_manifest import LAYER
from mmspec.drafters.heads.cached_layer import CachedLayer
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import Enter
from mmspec_mlx.device.framework import framework
from mmspec_mlx.device.kernels import kernels
from mmspec_mlx.device.weights import Linear, Weights
from mmspec_mlx.heads.injected_layers import InjectedLayers
from mmspec_mlx.network.cache import Cache
from mmspec_mlx.network.decoder import Decoder, DecoderLayer
from mmspec_mlx.sequence.draft_tail import MlxDraftTail


class MlxParts:
    """Implements `mmspec.drafters.heads.backend_interface.Parts`."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.framework = framework(kernels(weights.dtype))

    def tensor(self, name: str) -> mx.array:
        """Take the tensor called `name`, unchanged."""
        return self._weights.array(name)

    def linear(self, *paths: str, bias: bool = True) -> Linear:
        """Take linear layers with the same input as one product."""
        return self._weights.decoding_linear(*paths, bias=bias)

    def norm(self, path: str, eps: float) -> Linear:
        """Take the root-mean-square norm at `path`."""
        return kernels(self._weights.dtype).rms_norm(self._weights.array(f"{path}.weight"), eps)

    def layer(
        self, text: TextConfig, enter: Enter[mx.array]
    ) -> Callable[[], CachedLayer[mx.array]]:
        """Take the decoder layer; returns a function that opens a cache for it."""
        layer = DecoderLayer.take(self._weights, LAYER, text, enter=enter)
        decoder = Decoder([layer], text, self._weights.dtype)
        return partial(CachedLayer, decoder, partial(_open_tail, decoder))

    def injected(self, text: TextConfig) -> Callable[[], InjectedLayers]:
        """Take the decoder layers; returns a function that opens a cache of context for them."""
        paths = (f"layers.{index}" for index in range(text.num_hidden_layers))
        layers = [DecoderLayer.take(self._weights, path, text) for path in paths]
        return partial(InjectedLayers, Decoder(layers, text, self._weights.dtype))


def _open_tail(decoder: Decoder, cache: Cache, columns: int, position: int) -> MlxDraftTail:
    return MlxDraftTail(decoder, cache, None, columns, [position])
