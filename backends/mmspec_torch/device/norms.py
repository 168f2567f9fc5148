"""Root-mean-square norms.

Shape letters: H width.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

Norm = Callable[[Tensor], Tensor]
"""Function that normalises x [..., H] over its last axis."""


def rms_norm(weight: Tensor, eps: float) -> Norm:
    """Return the norm with `weight` [H], or [g, H] for groups, that is fastest on its device."""
    width = weight.shape[-1]
    if weight.device.type == "cpu" and weight.dtype == torch.float32:
        least = torch.tensor(math.sqrt(width * eps))
        return partial(_short_norm, weight=weight * math.sqrt(width), least=least)
    if weight.ndim == 1:
        return partial(F.rms_norm, normalized_shape=[width], weight=weight, eps=eps)
    return lambda x: F.rms_norm(x, [width], None, eps).mul_(weight)


def _short_norm(x: Tensor, weight: Tensor, least: Tensor) -> Tensor:
    """The norm in three operations instead of six; `weight` and `least` hold the width.

    sqrt(mean(x^2) + eps) is hypot(|x|, sqrt(H eps)) / sqrt(H).
    """
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x.div(length.hypot_(least)).mul_(weight)
