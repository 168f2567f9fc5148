"""The modules of a head, from its tensors."""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from mmspec.checkpoints.config import TextConfig
from mmspec.checkpoints.head_manifest import LAYER
from mmspec_torch.cpu.norms import Norm, rms_norm
from mmspec_torch.cpu.products import Biased, Product
from mmspec_torch.framework import framework
from mmspec_torch.heads.cached_layer import CachedLayer
from mmspec_torch.network.llama import MLP, Attention, Decoder, DecoderLayer
from mmspec_torch.weights import Weights


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
        matrix = self._weights.product(*paths)
        return Biased(matrix, self._weights.stack(paths, "bias")) if bias else matrix

    def norm(self, path: str, eps: float) -> Norm:
        """Take an RMS norm."""
        return rms_norm(self._weights.take(f"{path}.weight"), eps)

    def layer(
        self, text: TextConfig, *, qkv_bias: bool, input_norm: bool
    ) -> Callable[[], CachedLayer]:
        """Take the decoder layer; returns a function that opens a cache for it."""
        attention, mlp, eps = f"{LAYER}.self_attn", f"{LAYER}.mlp", text.rms_norm_eps
        qkv_proj = self.linear(*(f"{attention}.{part}_proj" for part in "qkv"), bias=qkv_bias)
        gate_up_proj = self.linear(f"{mlp}.gate_proj", f"{mlp}.up_proj", bias=False)
        layer = DecoderLayer(
            self.norm(f"{LAYER}.input_layernorm", eps) if input_norm else unchanged,
            Attention(qkv_proj, self.linear(f"{attention}.o_proj", bias=False), text),
            self.norm(f"{LAYER}.post_attention_layernorm", eps),
            MLP(gate_up_proj, self.linear(f"{mlp}.down_proj", bias=False)),
        )
        return partial(CachedLayer, Decoder([layer], text, self._like.device, self._like.dtype))


def unchanged(x: Tensor) -> Tensor:
    """Return x: stands in for an input norm that a layer lacks."""
    return x
