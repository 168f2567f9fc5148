"""Copies of numbers between host and device."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mmspec.decoding.contract import Float32


def upload(values: Sequence[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Copy numbers to the device without waiting for its queued work."""
    return _numbers(values, dtype, device).to(device, non_blocking=device.type == "cuda")


def send(values: Sequence[float], to: Tensor) -> None:
    """Copy numbers to the front of a buffer on the device, without waiting."""
    numbers = _numbers(values, to.dtype, to.device)
    to[: len(values)].copy_(numbers, non_blocking=to.is_cuda)


def _numbers(values: Sequence[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers on the host, in memory from which the device copies."""
    # A copy to a CUDA device may wait for its stream unless it comes from pinned memory, which is
    # kept until it has been read; elsewhere only blocking copies are safe.
    return torch.tensor(values, dtype=dtype, pin_memory=device.type == "cuda")


def to_host(tensor: Tensor) -> Float32:
    """Copy a tensor to the host as float32.  Blocks."""
    host: Float32 = tensor.float().cpu().numpy()
    return host
