"""Sampling of tokens on PyTorch.  V vocabulary."""

from functools import partial

import array_api_compat.torch as xp
import torch
from torch import Tensor

from mmspec.decoding.noise import Noise, exponentials
from mmspec.decoding.sampling import Sampler, Sampling
from mmspec_torch.device_io import upload


def sampler(sampling: Sampling, device: torch.device) -> Sampler:
    """Return a sampler for tensors on a device."""
    ids = partial(torch.arange, dtype=torch.int32, device=device)
    return Sampler(xp, top, partial(exponentials, xp), sampling, ids)


def keys(noise: Noise, count: int, device: torch.device) -> Tensor:
    """Return the noise keys [count, 2] of a round's positions, as signed integers."""
    return upload(noise.keys(count), torch.int64, device).to(torch.int32)


def top(p: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest entries of p [..., V] and their indices; ties go to the lowest."""
    # Non-negative floats sort like their bits; the index in the lower bits breaks ties.
    index = torch.arange(p.shape[-1], device=p.device)
    key = p.contiguous().view(torch.int32).to(torch.int64).bitwise_left_shift(32) - index
    chosen = key.topk(count).indices
    return p.gather(-1, chosen), chosen
