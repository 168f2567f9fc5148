"""What a run needs of its machine: a device, memory, batches made ahead, delayed signals."""

import ctypes
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from torch import Tensor

from mmspec_torch.device.products import relative_time
from mmspec_train.settings import RunSettings

Item = TypeVar("Item")
"""A batch: a dataclass of tensors and of values that stay on the host."""
ENDS = [kind for kind in signal.Signals if kind.name in ("SIGINT", "SIGTERM", "SIGHUP")]
AHEAD = 16
"""Number of batches of a source that are made ahead."""
Source = Callable[[int], Iterator[Item]]
"""Function that yields batches from a number on, without end, in a fixed order."""
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Options of glibc's `mallopt`, from malloc.h."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The device and the checkpoint interval of a run."""

    device: torch.device
    checkpoint_seconds: float

    def autocast(self) -> torch.autocast:
        """Return the autocast context: bfloat16 on CUDA and on a CPU with units for it."""
        kind = self.device.type
        is_fast = kind == "cuda" or (kind == "cpu" and multiplies_bfloat16())
        return torch.autocast(kind, torch.bfloat16, enabled=is_fast)

    def on_device(self, batch: Item) -> Item:
        """Return the batch with its tensors moved to the device."""
        values = (getattr(batch, field.name) for field in fields(batch))  # type: ignore[arg-type]
        return type(batch)(*(v.to(self.device) if isinstance(v, Tensor) else v for v in values))


def prepare_process(run: RunSettings) -> None:
    """Set this process's number of threads, and let glibc give out freed blocks again.

    A CPU takes longer to map pages than to fill them.  Called when all models are loaded.
    """
    if run.threads:
        torch.set_num_threads(run.threads)
    with suppress(OSError, AttributeError):  # no glibc
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def multiplies_bfloat16() -> bool:
    """True if this CPU multiplies matrices in bfloat16 as fast as in float32."""
    return relative_time(torch.bfloat16) <= 1


def prefetch(source: Source[Item], start: int, maker: ThreadPoolExecutor) -> Iterator[Item]:
    """Yield batches `start`, `start` + 1, ... made by `maker`'s thread; raises as it did."""
    batches = source(start)
    ahead = deque(maker.submit(next, batches) for _ in range(AHEAD))
    while True:
        yield ahead.popleft().result()
        ahead.append(maker.submit(next, batches))


@contextmanager
def delay_signals() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP to the end of the block, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    queue: list[int] = []
    handlers = {kind: signal.signal(kind, lambda number, _: queue.append(number)) for kind in ENDS}
    try:
        yield
    finally:
        for kind, handler in handlers.items():
            signal.signal(kind, handler)
    for number in queue[:1]:
        signal.raise_signal(number)
