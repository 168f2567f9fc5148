"""Finds PyTorch's devices and dtypes by name."""

import torch

from mmspec.ground.errors import UsageError, choice

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def devices() -> list[str]:
    """Return the devices of this machine, fastest first."""
    available = {"cuda": torch.cuda, "mps": torch.mps}
    return [*(kind for kind, module in available.items() if module.is_available()), "cpu"]


def find_device(name: str) -> torch.device:
    """Return the device `name`: 'auto', 'cpu', 'mps', 'cuda' or 'cuda:1'.  Raises UsageError."""
    present = devices()
    if name == "auto":
        return torch.device(present[0])
    kind, colon, index = name.partition(":")
    if kind in ("cuda", "mps") and kind not in present:
        raise UsageError(f"device {name!r} is not on this machine: use {' or '.join(present)}")
    if kind not in present:
        raise choice("torch device", name, ["auto", *present])
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if colon and index not in map(str, range(count)):
        raise UsageError(f"device {name!r}: this machine has {count} {kind}, counted from 0")
    return torch.device(name)


def find_dtype(name: str, device: torch.device, default: str | None) -> torch.dtype:
    """Return the dtype called `name`; 'auto' is float32 on a CPU, else `default` or float32."""
    if name == "auto":
        name = "float32" if device.type == "cpu" else default or "float32"
    if name not in DTYPES:
        raise choice("dtype", name, ["auto", *DTYPES])
    return DTYPES[name]


def require_ieee_float32() -> None:
    """Turn off TF32, which has a mantissa of ten bits, for float32 products."""
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    torch.backends.cudnn.conv.fp32_precision = "ieee"  # type: ignore[attr-defined]
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"  # type: ignore[attr-defined]
