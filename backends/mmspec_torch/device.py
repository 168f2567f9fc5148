"""Devices, types and the way up to the device."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mmspec.errors import UsageError, choice

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def available() -> list[str]:
    """Devices present, the preferred one first."""
    kinds = []
    if torch.cuda.is_available():
        kinds += ["cuda"]
    if torch.mps.is_available():
        kinds += ["mps"]
    return [*kinds, "cpu"]


def find_device(name: str) -> torch.device:
    """The device called `name` ('auto', 'cpu', 'mps', 'cuda', 'cuda:1').  Raises UsageError."""
    present = available()
    if name == "auto":
        return torch.device(present[0])
    kind, _, index = name.partition(":")
    if kind in ("cuda", "mps") and kind not in present:
        raise UsageError(f"device {name!r} is not on this machine: use {' or '.join(present)}")
    if kind not in present:
        raise choice("torch device", name, ["auto", *present])
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if index and index not in map(str, range(count)):
        raise UsageError(f"device {name!r}: this machine has {count} {kind}, counted from 0")
    return torch.device(name)


def find_dtype(name: str, device: torch.device, stored: str | None) -> torch.dtype:
    """The type called `name`; 'auto' is float32 on a CPU, else the checkpoint's own `stored`."""
    if name == "auto":
        name = "float32" if device.type == "cpu" else stored or "float32"
    if name not in DTYPES:
        raise choice("dtype", name, ["auto", *DTYPES])
    return DTYPES[name]


def require_ieee_float32() -> None:
    """Compute float32 products in float32: no TF32, which keeps ten bits of mantissa."""
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    torch.backends.cudnn.conv.fp32_precision = "ieee"  # type: ignore[attr-defined]
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"  # type: ignore[attr-defined]


def upload(
    values: Sequence[float] | Sequence[Sequence[float]], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Bring numbers to the device without waiting for the work queued on it."""
    # A copy to a CUDA device may wait for its stream unless it comes from pinned memory, which is
    # kept until it has been read; elsewhere only blocking copies are safe.
    cuda = device.type == "cuda"
    return torch.tensor(values, dtype=dtype, pin_memory=cuda).to(device, non_blocking=cuda)
