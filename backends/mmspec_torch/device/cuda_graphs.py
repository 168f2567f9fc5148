"""Captures of computations as CUDA graphs."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Outputs = tuple[Tensor, ...]
Compute = Callable[[], Outputs]
"""Function that enqueues the same kernels on the same buffers at every call."""
Capture = Callable[[Compute], Compute]
"""Function that records a computation and returns one that replays it on the same buffers."""


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
