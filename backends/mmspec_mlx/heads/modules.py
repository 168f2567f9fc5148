"""A head's tensors, as MLX multiplies with them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import mlx.core as mx

from mmspec.config import TextConfig
from mmspec.heads.manifest import LAYER
from mmspec_mlx.clip import affine
from mmspec_mlx.heads.forwards import CachedLayer, framework
from mmspec_mlx.kernels import Norm, kernels
from mmspec_mlx.llama import Decoder, Layer, Map
from mmspec_mlx.weights import Weights


class MlxParts:
    """Implements `mmspec.heads.seam.Parts`."""

    def __init__(self, weights: Weights) -> None:
        """Take from `weights`, in their type."""
        self._weights, self._kernels = weights, kernels(weights.dtype)
        self.framework = framework(self._kernels.arrays)

    def tensor(self, name: str) -> mx.array:
        """Take one as it is."""
        return self._weights.array(name)

    def linear(self, *paths: str, bias: bool = True) -> Map:
        """Take linear layers that have one input as one product."""
        if not bias:
            return self._weights.decoding_matrix(*(f"{path}.weight" for path in paths))
        whole = affine(self._weights, *paths)
        return replace(whole, matrix=self._weights.for_few_rows(whole.matrix))

    def norm(self, path: str, eps: float) -> Norm:
        """Take a norm."""
        return self._kernels.norm(self._weights.array(f"{path}.weight"), eps)

    def layer(
        self, text: TextConfig, *, qkv_bias: bool, input_norm: bool
    ) -> Callable[[], CachedLayer]:
        """Take the decoder layer."""
        attention, mlp, eps = f"{LAYER}.self_attn", f"{LAYER}.mlp", text.rms_norm_eps
        layer = Layer(
            self.norm(f"{LAYER}.input_layernorm", eps) if input_norm else unchanged,
            self.linear(*(f"{attention}.{part}_proj" for part in "qkv"), bias=qkv_bias),
            self.linear(f"{attention}.o_proj", bias=False),
            self.norm(f"{LAYER}.post_attention_layernorm", eps),
            self.linear(f"{mlp}.gate_proj", f"{mlp}.up_proj", bias=False),
            self.linear(f"{mlp}.down_proj", bias=False),
        )
        return partial(CachedLayer, Decoder([layer], text, self._weights.dtype))


def unchanged(x: mx.array) -> mx.array:
    """In place of a norm that a layer does not have."""
    return x
