"""Root-mean-square norms.

Shape letters: n rows, H width.
"""

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Norm(Protocol):
    """A norm with its weight."""

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x [n, H]."""
        ...


class RootMeanSquare:
    """PyTorch's own, which computes half types in float32."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        """Keep a weight [H]."""
        self._weight, self._eps = weight, eps

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x [n, H]."""
        return F.rms_norm(x, self._weight.shape, self._weight, self._eps)


class Hypotenuse:
    """The same in three operations instead of six, which on a CPU are what a small norm costs.

    sqrt(mean(x^2) + eps) is hypot(|x|, sqrt(H eps)) / sqrt(H); the last factor goes to the weight.
    """

    def __init__(self, weight: Tensor, eps: float) -> None:
        """Scale a float32 weight [H]."""
        self._weight = weight * math.sqrt(len(weight))
        self._floor = torch.tensor(math.sqrt(len(weight) * eps))

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x [n, H]."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x.div(length.hypot_(self._floor)).mul_(self._weight)


def norm(weight: Tensor, eps: float) -> Norm:
    """Choose how to normalise with a weight [H]."""
    plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    return Hypotenuse(weight, eps) if plain else RootMeanSquare(weight, eps)
