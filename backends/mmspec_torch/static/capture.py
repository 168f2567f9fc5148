"""Captured computations: enqueued once as a graph, then replayed as a whole."""

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

Outputs = tuple[Tensor | None, ...]
Compute = Callable[[], Outputs]
"""Enqueues the same kernels on the same buffers whenever it is called; may run more than once."""
Capture = Callable[[Compute], Compute]
"""Makes of a computation what does the same again, with what the buffers hold by then."""


class Replays:
    """Computations by the shape of a round: run as they are at first, captured at the second use.

    A shape that comes once, such as the last round of an answer, is not worth a capture.
    """

    def __init__(self, capture: Capture) -> None:
        """Nothing is captured yet."""
        self._capture = capture
        self._met: set[Hashable] = set()
        self._captured: dict[Hashable, Compute] = {}

    def run(self, key: Hashable, compute: Compute) -> Outputs:
        """Enqueue `compute`; what has the same `key` must enqueue the same."""
        if key in self._captured:
            return self._captured[key]()
        if key not in self._met:
            self._met.add(key)
            return compute()
        replay = self._captured[key] = self._capture(compute)
        return replay()

    def clear(self) -> None:
        """Forget everything: the buffers have moved."""
        self._met.clear()
        self._captured.clear()


class CudaGraphs:
    """Captures CUDA graphs that share one pool of memory.

    They may share it, for they run one after another and what one returns is copied at once.
    """

    def __init__(self) -> None:
        """The first capture makes the pool."""
        self._pool: Any = None

    def __call__(self, compute: Compute) -> Compute:
        """Warm up on a stream of its own, as capture demands, then capture."""
        current = torch.cuda.current_stream()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(current)
        with torch.cuda.stream(aside):
            compute()
        current.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=self._pool):
            outputs = compute()

        def replay() -> Outputs:
            graph.replay()
            return copies(outputs)

        return replay


def copies(outputs: Outputs) -> Outputs:
    """Outputs in memory of their own: the next replay overwrites what they were."""
    return tuple(None if each is None else each.clone() for each in outputs)


def eager(compute: Compute) -> Compute:
    """Capture nothing: the static form runs kernel by kernel, as tests on a CPU want it."""
    return compute
