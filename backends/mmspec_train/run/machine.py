"""The device of a run, and figures of it that are measured."""

import ctypes
import os
import timeit
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from torch import Tensor

from mmspec_torch.device.products import relative_time

Item = TypeVar("Item")
"""A batch: a dataclass of tensors and of values that stay on the host."""
SIDE = 1024
"""Rows of the matrices whose products are timed."""
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Options of glibc's `mallopt`, from malloc.h."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The device and the checkpoint interval of a run."""

    device: torch.device
    checkpoint_seconds: float = 180.0

    def autocast(self) -> torch.autocast:
        """Return the autocast context: bfloat16 on CUDA and on a CPU with units for it."""
        kind = self.device.type
        enabled = kind == "cuda" or (kind == "cpu" and multiplies_bfloat16())
        return torch.autocast(kind, torch.bfloat16, enabled=enabled)

    def on_device(self, batch: Item) -> Item:
        """Return the batch with its tensors moved to the device."""
        values = (getattr(batch, field.name) for field in fields(batch))  # type: ignore[arg-type]
        return type(batch)(*(v.to(self.device) if isinstance(v, Tensor) else v for v in values))


def reuse_memory() -> None:
    """Let glibc give out freed blocks again: a CPU takes longer to map pages than to fill them."""
    with suppress(OSError, AttributeError):  # no glibc
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def multiplies_bfloat16() -> bool:
    """True if this CPU multiplies matrices in bfloat16 as fast as in float32."""
    return relative_time(torch.bfloat16) <= 1


def measured_rates(device: torch.device) -> tuple[float, float, float]:
    """Return TFLOP/s of training, TB/s of decoding as if weights had 16 bits, and GB of memory."""
    on_cpu = device.type == "cpu"
    trains = torch.float32 if on_cpu and not multiplies_bfloat16() else torch.bfloat16
    decodes = torch.float32 if on_cpu else torch.bfloat16
    square = torch.ones(SIDE, SIDE, dtype=trains, device=device)
    whole = torch.ones(8 * SIDE, 8 * SIDE, dtype=decodes, device=device)
    tflops = 2 * SIDE**3 / _seconds(square, square) / 1e12
    bandwidth = 2 * whole.numel() / _seconds(whole, whole[:1].T) / 1e12
    if device.type == "cuda":
        return tflops, bandwidth, torch.cuda.get_device_properties(device).total_memory / 1e9
    return tflops, bandwidth, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _seconds(left: Tensor, right: Tensor) -> float:
    """Return the seconds of a matrix product, the shortest of a few."""

    def once() -> float:
        return float(torch.mm(left, right)[0, 0])  # waits for the device

    once()
    return min(timeit.repeat(once, number=1, repeat=5))
