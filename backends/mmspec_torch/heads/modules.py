"""A head's tensors, as PyTorch multiplies with them.

Shape letters: n rows, I inputs, O outputs.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from mmspec.config import TextConfig
from mmspec.heads.manifest import LAYER
from mmspec_torch.heads.forwards import CachedLayer, framework
from mmspec_torch.llama import Decoder, Layer
from mmspec_torch.norms import Norm, norm
from mmspec_torch.products import Biased, Product
from mmspec_torch.weights import Weights


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
        matrix = self._weights.product(*paths)
        return Biased(matrix, self._weights.stack(paths, "bias")) if bias else matrix

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
