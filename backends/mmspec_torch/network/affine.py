"""Linear layers with a bias, and norms, of towers and projectors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from mmspec_torch.device.quantized import Matrix, quantized
from mmspec_torch.device.weights import Weights


@dataclass(frozen=True, slots=True)
class Affine:
    """A weight and its bias, of a linear layer."""

    weight: Tensor
    bias: Tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The weight and the bias."""
        return self.weight, self.bias

    def __call__(self, x: Tensor) -> Tensor:
        """The linear layer's output for x."""
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """A layer norm: weight, bias and epsilon."""

    weight: Tensor
    bias: Tensor
    epsilon: float

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x [..., width] over its last axis."""
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.epsilon)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The weight and the bias."""
        return self.weight, self.bias


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """A root-mean-square norm: weight and epsilon."""

    weight: Tensor
    epsilon: float

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x [..., width] over its last axis."""
        return F.rms_norm(x, x.shape[-1:], self.weight, self.epsilon)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The weight."""
        return (self.weight,)


@dataclass(frozen=True, slots=True)
class QuantizedAffine:
    """A linear layer with a quantized weight, and its bias."""

    matrix: Matrix
    bias: Tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors of the quantized weight, and the bias."""
        return *self.matrix.tensors, self.bias

    def __call__(self, x: Tensor) -> Tensor:
        """The linear layer's output for x."""
        return self.matrix(x).add_(self.bias)


Linear = Affine | QuantizedAffine
Norm = LayerNorm | RmsNorm
Activation = Callable[[Tensor], Tensor]


def layer_norm(weights: Weights, path: str, epsilon: float) -> LayerNorm:
    """Take the layer norm at `path`."""
    return LayerNorm(weights.take(f"{path}.weight"), weights.take(f"{path}.bias"), epsilon)


def rms_norm(weights: Weights, path: str, epsilon: float) -> RmsNorm:
    """Take the root-mean-square norm at `path`."""
    return RmsNorm(weights.take(f"{path}.weight"), epsilon)


def linear(weights: Weights, *paths: str) -> Linear:
    """Take linear layers of the same input as one, quantized if there is a scheme that fits.

    Inputs that do not divide into groups stay as they are, as those of some of Qwen's towers.
    """
    weight, bias = weights.stack(paths), weights.stack(paths, "bias")
    scheme = weights.scheme
    if scheme is None or (scheme.group and weight.shape[1] % scheme.group):
        return Affine(weight, bias)
    return QuantizedAffine(quantized(weight, scheme, paths[0]), bias)


@dataclass(frozen=True, slots=True)
class Mlp:
    """Two linear layers and what is between them."""

    first: Linear
    activation: Activation
    second: Linear

    def __call__(self, x: Tensor) -> Tensor:
        """Map x [..., in] to [..., out]."""
        return self.second(self.activation(self.first(x)))


def swiglu(x: Tensor) -> Tensor:
    """Return silu(gate) * up of x [..., 2 n], gate first."""
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


gelu: Activation = F.gelu
"""The exact GELU."""
gelu_tanh: Activation = partial(F.gelu, approximate="tanh")
"""The GELU by its tanh approximation."""
