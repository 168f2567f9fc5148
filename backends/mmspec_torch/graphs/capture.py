"""Captures computations as CUDA graphs and replays them."""

from collections.abc import Callable, Hashable
from typing import Any
from warnings import warn

import torch
from torch import Tensor

Outputs = tuple[Tensor, ...]
Compute = Callable[[], Outputs]
"""Function that enqueues the same kernels on the same buffers at every call."""
Capture = Callable[[Compute], Compute]
"""Function that records a computation and returns one that replays it on the same buffers."""


class Replays:
    """Runs a round's computation: for each shape of input eagerly the first time, then captured.

    A shape that occurs once, such as that of an answer's last round, is not worth a capture.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._shapes: set[Hashable] = set()
        self._captured: dict[Hashable, Compute] = {}

    def run(self, key: Hashable, compute: Compute) -> Outputs:
        """Run `compute` or replay it; computations with the same `key` must be the same."""
        if key in self._captured:
            return self._captured[key]()
        if key not in self._shapes:
            self._shapes.add(key)
            return compute()
        replay = self._captured[key] = self._capture_or_warn(compute)
        return replay()

    def _capture_or_warn(self, compute: Compute) -> Compute:
        try:
            return self._capture(compute)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            warn(f"no graph, rounds run kernel by kernel and slower: {reason}", stacklevel=2)
            return compute

    def clear(self) -> None:
        """Discard all captures, because the buffers that they use have moved."""
        self._shapes.clear()
        self._captured.clear()


class CudaGraphs:
    """Captures CUDA graphs on one device, in one memory pool.

    The graphs can share it, because they run one after another and their outputs are copied.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        with torch.cuda.device(device):
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self._pool: Any = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Compute) -> Compute:
        """Run `compute` once on the side stream, so that libraries initialize, then capture it."""
        with torch.cuda.device(self._device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                compute()
            torch.cuda.current_stream().wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                outputs = compute()

        def replay() -> Outputs:
            graph.replay()
            return copies(outputs)

        return replay


def copies(outputs: Outputs) -> Outputs:
    """Return copies of the outputs, which the next replay would overwrite."""
    return tuple(output.clone() for output in outputs)
