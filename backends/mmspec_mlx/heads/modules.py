"""The modules of a head, from its tensors."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import mlx.core as mx

from mmspec.checkpoints.config import TextConfig
from mmspec.checkpoints.head_manifest import LAYER
from mmspec_mlx.cpu.kernels import kernels
from mmspec_mlx.framework import framework
from mmspec_mlx.heads.cached_layer import CachedLayer
from mmspec_mlx.network.clip import affine
from mmspec_mlx.network.llama import MLP, Attention, Decoder, DecoderLayer, Linear
from mmspec_mlx.weights import Weights


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
        if not bias:
            return self._weights.decoding_matrix(*(f"{path}.weight" for path in paths))
        whole = affine(self._weights, *paths)
        return replace(whole, matrix=self._weights.for_few_rows(whole.matrix))

    def norm(self, path: str, eps: float) -> Linear:
        """Take an RMS norm."""
        return kernels(self._weights.dtype).rms_norm(self._weights.array(f"{path}.weight"), eps)

    def layer(
        self, text: TextConfig, *, qkv_bias: bool, input_norm: bool
    ) -> Callable[[], CachedLayer]:
        """Take the decoder layer; returns a function that opens a cache for it."""
        attention, mlp, eps = f"{LAYER}.self_attn", f"{LAYER}.mlp", text.rms_norm_eps
        qkv_proj = self.linear(*(f"{attention}.{part}_proj" for part in "qkv"), bias=qkv_bias)
        gate_up_proj = self.linear(f"{mlp}.gate_proj", f"{mlp}.up_proj", bias=False)
        down_proj = self.linear(f"{mlp}.down_proj", bias=False)
        layer = DecoderLayer(
            self.norm(f"{LAYER}.input_layernorm", eps) if input_norm else unchanged,
            Attention(qkv_proj, self.linear(f"{attention}.o_proj", bias=False), text),
            self.norm(f"{LAYER}.post_attention_layernorm", eps),
            MLP(gate_up_proj, down_proj, self._weights.dtype),
        )
        return partial(CachedLayer, Decoder([layer], text, self._weights.dtype))


def unchanged(x: mx.array) -> mx.array:
    """Return x: stands in for an input norm that a layer lacks."""
    return x
