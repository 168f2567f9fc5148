"""Captures of computations as CUDA graphs."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

Outputs = tuple[Tensor, ...]
Compute = Callable[[], Outputs]
"""Function that enqueues the same kernels on the same buffers at every call."""
Capture = Callable[[Compute], Compute]
"""Function that records a computation and returns one that replays it on the same buffers."""


class TimedCapture:
    """A `Capture` that counts its seconds: the next rounds of a shape do without."""

    def __init__(self, capture: Capture, device: torch.device) -> None:
        self._capture, self._device, self.seconds = capture, device, 0.0

    def __call__(self, compute: Compute) -> Compute:
        """Capture `compute`; earlier work, for which captures wait, is no setup."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        start = perf_counter()
        try:
            return self._capture(compute)
        finally:
            self.seconds += perf_counter() - start


class CudaGraphs:
    """Captures CUDA graphs on one device, in one memory pool.

    The graphs can share it, because they run one after another and their outputs are copied.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool: Any = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Compute) -> Compute:
        """Run `compute` once on the side stream, so that libraries initialize, then capture it."""
        with torch.cuda.device(self._stream.device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                compute()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                outputs = compute()

        def replay() -> Outputs:
            graph.replay()
            return tuple(output.clone() for output in outputs)  # the next replay overwrites them

        return replay
