"""Layers with a bias: linear layers and layer norms of towers and projectors."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from mmspec_torch.quantized import Matrix, quantized
from mmspec_torch.weights import Weights


@dataclass(frozen=True, slots=True)
class Affine:
    """A weight and its bias, of a linear layer or a layer norm."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def take(cls, weights: Weights, *names: str) -> "Affine":
        """Take weight and bias of a layer, or of several fused along their outputs."""
        return cls(weights.stack(names), weights.stack(names, "bias"))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The weight and the bias."""
        return self.weight, self.bias

    def __call__(self, x: Tensor) -> Tensor:
        """The linear layer's output for x."""
        return F.linear(x, self.weight, self.bias)

    def norm(self, x: Tensor, eps: float) -> Tensor:
        """The layer norm's output for x."""
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, eps)


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


def linear(weights: Weights, *paths: str) -> Linear:
    """Take linear layers with the same input as one layer, quantized if there is a scheme."""
    if weights.scheme is None:
        return Affine.take(weights, *paths)
    matrix = quantized(weights.stack(paths), weights.scheme, paths[0])
    return QuantizedAffine(matrix, weights.stack(paths, "bias"))
