"""The modules of a head, from its tensors."""

from collections.abc import Callable
from functools import partial
from itertools import count

from torch import Tensor

from mmspec.checkpoints.head_manifest import LAYER
from mmspec.drafters.heads.cached_layer import CachedLayer
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import Enter
from mmspec_torch.device.framework import framework
from mmspec_torch.device.norms import Norm, rms_norm
from mmspec_torch.device.products import Product
from mmspec_torch.device.weights import Weights
from mmspec_torch.heads.injected_layers import InjectedLayers
from mmspec_torch.network.cache import Cache
from mmspec_torch.network.decoder import Decoder, DecoderLayer
from mmspec_torch.sequence.draft_tail import TorchDraftTail


class TorchParts:
    """Implements `mmspec.drafters.heads.backend_interface.Parts`."""

    def __init__(self, weights: Weights, like: Decoder) -> None:
        """weights: the head's. like: a decoder whose device and dtype the head gets."""
        self.framework = framework(like.device)
        self._weights, self._like = weights, like

    def tensor(self, name: str) -> Tensor:
        """Take the tensor called `name`, unchanged."""
        return self._weights.take(name)

    def linear(self, *paths: str, bias: bool = True) -> Product:
        """Take linear layers with the same input as one product."""
        return self._weights.product(*paths, bias=bias)

    def norm(self, path: str, eps: float) -> Norm:
        """Take the root-mean-square norm at `path`."""
        return rms_norm(self._weights.take(f"{path}.weight"), eps)

    def layer(self, text: TextConfig, enter: Enter[Tensor]) -> Callable[[], CachedLayer[Tensor]]:
        """Take the decoder layer; returns a function that opens a cache for it."""
        layer = DecoderLayer.take(self._weights, LAYER, text, enter=enter)
        decoder = Decoder([layer], text, self._like.device, self._like.dtype)
        return partial(CachedLayer, decoder, partial(_open_tail, decoder))

    def injected(self, text: TextConfig) -> Callable[[], InjectedLayers]:
        """Take the decoder layers; returns a function that opens a cache of context for them."""
        paths = (f"layers.{index}" for index in range(text.num_hidden_layers))
        layers = [DecoderLayer.take(self._weights, path, text) for path in paths]
        return partial(InjectedLayers, Decoder(layers, text, self._like.device, self._like.dtype))


def _open_tail(decoder: Decoder, cache: Cache, columns: int, position: int) -> TorchDraftTail:
    angles = (decoder.rotary.run(at, at + 1) for at in count(position))
    return TorchDraftTail(decoder, cache, columns, angles)
