"""The device of a run and its processes, started by `torchrun` or `accelerate launch`.

A step's batches go to the processes in turn, and gradients are their mean: several processes train
as one does, but for the order of sums.
"""

import atexit
import ctypes
import itertools
import os
import timeit
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from mmspec.ground.errors import UsageError
from mmspec_torch.device.products import relative_time

Item = TypeVar("Item")
"""A batch: a dataclass of tensors and of values that stay on the host."""
SIDE = 1024
"""Rows of the matrices whose products are timed."""
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Options of glibc's `mallopt`, from malloc.h."""
TIMEOUT = timedelta(days=30)
"""How long processes wait for one another: the first answers all questions before training."""


@dataclass
class Processes:
    """All processes of a run, seen from one of them; by default there is only one."""

    rank: int = 0
    """Index of this process; process 0 writes logs and checkpoints."""
    count: int = 1

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its mean over all processes; one that none has stays None."""
        if self.count == 1:
            return
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
        vector = parameters_to_vector(gradients)
        present = vector.new_tensor([float(p.grad is not None) for p in trained])
        sums, size = self.add_up(torch.cat([vector, present])), len(vector)
        vector_to_parameters(sums[:size] / self.count, gradients)
        for parameter, gradient, holders in zip(trained, gradients, sums[size:], strict=True):
            parameter.grad = gradient if holders else None

    def total(self, value: float) -> float:
        """Return the sum of the values of all processes."""
        return float(self.add_up(torch.tensor(value, dtype=torch.float64)))

    def from_first(self, value: float) -> float:
        """Return process 0's value in every process."""
        return self.total(value if self.rank == 0 else 0.0)

    def wait(self) -> None:
        """Block until every process calls this."""
        self.total(0.0)

    def add_up(self, tensor: Tensor) -> Tensor:
        """Replace a tensor by its sum over all processes, and return it."""
        if self.count > 1:
            distributed.all_reduce(tensor)
        return tensor


def join_processes(device: torch.device) -> tuple[Processes, torch.device]:
    """Join the processes that a launcher started; returns them and this process's device.

    device: of the run; of several GPUs a process gets its own.  Raises UsageError if no launcher
    started this process, or the processes cannot exchange gradients on this device.
    """
    if not distributed.is_torchelastic_launched():
        raise UsageError(
            "--accelerate joins several processes, and no launcher started this one: torchrun "
            "--nproc-per-node N -m mmspec_cli train ... --accelerate, or accelerate launch "
            "--multi_gpu --num_processes N -m mmspec_cli ... (with --cpu it starts one process)"
        )
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"several processes train on cpu or cuda, not on {device}: give --device")
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=TIMEOUT)
    atexit.register(distributed.destroy_process_group)
    return Processes(distributed.get_rank(), distributed.get_world_size()), device


@dataclass(frozen=True, slots=True)
class Machine:
    """The device, processes and checkpoint interval of a run."""

    device: torch.device
    compiled: bool = True
    checkpoint_seconds: float = 180.0
    processes: Processes = field(default_factory=Processes)

    def autocast(self) -> torch.autocast:
        """Return the autocast context: bfloat16 on CUDA and on a CPU with units for it."""
        kind = self.device.type
        enabled = kind == "cuda" or (kind == "cpu" and multiplies_bfloat16())
        return torch.autocast(kind, torch.bfloat16, enabled=enabled)

    def compile(self, *layers: Iterable[nn.Module]) -> None:
        """Compile transformer layers if `compiled` is set."""
        for layer in itertools.chain(*layers) if self.compiled else ():
            layer.compile(dynamic=True)

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
