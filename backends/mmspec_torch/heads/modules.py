"""A head's tensors, as PyTorch multiplies with them.

Shape letters: n rows, I inputs, O outputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from mmspec.config import TextConfig
from mmspec.heads.manifest import LAYER
from mmspec_torch.heads.forwards import CachedLayer, framework
from mmspec_torch.llama import Decoder, Layer
from mmspec_torch.norms import Norm, norm
from mmspec_torch.products import Product, product
from mmspec_torch.weights import Weights


@dataclass(frozen=True, slots=True)
class Affine:
    """A product and a bias [O] to add; itself a `Product`."""

    matrix: Product
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Map x [n, I] to [n, O]."""
        return self.matrix(x).add_(self.bias)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the map of x [n, I] plus `to` [n, O], which may be overwritten."""
        return self.matrix.added(x, to).add_(self.bias)


class TorchParts:
    """Implements `mmspec.heads.seam.Parts`."""

    def __init__(self, weights: Weights, like: Decoder) -> None:
        """Take from `weights` what is to run where and as `like` does."""
        self.framework = framework(like.device)
        self._weights, self._like = weights, like

    def tensor(self, name: str) -> Tensor:
        """Take one as it is."""
        return self._weights.take(name)

    def linear(self, *paths: str, bias: bool = True) -> Product:
        """Take linear layers that have one input as one product."""
        take = self._weights.take
        matrix = product(torch.cat([take(f"{path}.weight") for path in paths]))
        if not bias:
            return matrix
        return Affine(matrix, torch.cat([take(f"{path}.bias") for path in paths]))

    def norm(self, path: str, eps: float) -> Norm:
        """Take a norm."""
        return norm(self._weights.take(f"{path}.weight"), eps)

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
        return partial(CachedLayer, Decoder([layer], text, self._like.device, self._like.dtype))


def unchanged(x: Tensor) -> Tensor:
    """In place of a norm that a layer does not have."""
    return x
