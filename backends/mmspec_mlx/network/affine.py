"""Norms, activations and MLPs of towers and projectors."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

from mmspec_mlx.device.products import Biased
from mmspec_mlx.device.weights import Weights


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """A layer norm: weight, bias and epsilon."""

    weight: mx.array
    bias: mx.array
    epsilon: float

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise x [..., width] over its last axis."""
        return mx.fast.layer_norm(x, self.weight, self.bias, self.epsilon)

    @property
    def arrays(self) -> list[mx.array]:
        """All tensors of the module."""
        return [self.weight, self.bias]


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """A root-mean-square norm: weight and epsilon."""

    weight: mx.array
    epsilon: float

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise x [..., width] over its last axis."""
        return mx.fast.rms_norm(x, self.weight, self.epsilon)

    @property
    def arrays(self) -> list[mx.array]:
        """All tensors of the module."""
        return [self.weight]


Norm = LayerNorm | RmsNorm
Activation = Callable[[mx.array], mx.array]


def layer_norm(weights: Weights, path: str, epsilon: float) -> LayerNorm:
    """Take the layer norm at `path`."""
    return LayerNorm(weights.array(f"{path}.weight"), weights.array(f"{path}.bias"), epsilon)


def rms_norm(weights: Weights, path: str, epsilon: float) -> RmsNorm:
    """Take the root-mean-square norm at `path`."""
    return RmsNorm(weights.array(f"{path}.weight"), epsilon)


@dataclass(frozen=True, slots=True)
class Mlp:
    """Two linear layers and what is between them."""

    first: Biased
    activation: Activation
    second: Biased

    def __call__(self, x: mx.array) -> mx.array:
        """Map x [..., in] to [..., out]."""
        return self.second(self.activation(self.first(x)))


def swiglu(x: mx.array) -> mx.array:
    """Return silu(gate) * up of x [..., 2 n], gate first."""
    gate, up = mx.split(x, 2, axis=-1)
    return gate * mx.sigmoid(gate) * up


def gelu(x: mx.array) -> mx.array:
    """Return the exact GELU of x [...]."""
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


def gelu_tanh(x: mx.array) -> mx.array:
    """Return the GELU of x [...] by its tanh approximation."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return x * (1 + mx.tanh(inner)) / 2
