"""Root-mean-square norms.

Shape letters: H width.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Norm = Callable[[Tensor], Tensor]
"""Function that normalises x [..., H] over its last axis."""


class RMSNorm:
    """PyTorch's own norm, which computes 16-bit types in float32."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        self._weight, self._eps = weight, eps

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x [..., H] over its last axis."""
        return F.rms_norm(x, self._weight.shape, self._weight, self._eps)


class ShortRMSNorm:
    """The norm in three operations instead of six, for float32 on a CPU.

    sqrt(mean(x^2) + eps) is hypot(|x|, sqrt(H eps)) / sqrt(H); the weight is multiplied by sqrt(H).
    """

    def __init__(self, weight: Tensor, eps: float) -> None:
        width = weight.shape[-1]
        self._weight = weight * math.sqrt(width)
        self._floor = torch.tensor(math.sqrt(width * eps))

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x [..., H] over its last axis."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x.div(length.hypot_(self._floor)).mul_(self._weight)


class GroupedRMSNorm:
    """PyTorch's own norm of groups [..., g, H], each of which has its weight."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        self._weight, self._eps = weight, eps

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x [..., g, H] over its last axis."""
        return F.rms_norm(x, self._weight.shape[-1:], None, self._eps).mul_(self._weight)


def rms_norm(weight: Tensor, eps: float) -> Norm:
    """Return the norm with `weight` [H], or [g, H] for groups, that is fastest on its device."""
    if weight.device.type == "cpu" and weight.dtype == torch.float32:
        return ShortRMSNorm(weight, eps)
    return RMSNorm(weight, eps) if weight.ndim == 1 else GroupedRMSNorm(weight, eps)
