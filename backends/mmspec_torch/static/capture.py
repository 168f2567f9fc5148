"""Captured computations: enqueued once as a graph, then replayed as a whole."""

from collections.abc import Callable, Hashable
from typing import Any
from warnings import warn

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
        replay = self._captured[key] = self._made(compute)
        return replay()

    def _made(self, compute: Compute) -> Compute:
        """Capture; where that cannot be, a driver's reason is no reason to say nothing at all."""
        try:
            return self._capture(compute)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            warn(f"no graph, rounds run kernel by kernel and slower: {reason}", stacklevel=2)
            return compute

    def clear(self) -> None:
        """Forget everything: the buffers have moved."""
        self._met.clear()
        self._captured.clear()


class CudaGraphs:
    """Captures CUDA graphs on one device, in one pool of memory.

    They may share it, for they run one after another and what one returns is copied at once.
    """

    def __init__(self, device: torch.device) -> None:
        """The first capture makes the pool, and the stream that capture needs."""
        self._device = device
        self._aside: torch.cuda.Stream | None = None
        self._pool: Any = None

    def __call__(self, compute: Compute) -> Compute:
        """Run it once more, so that libraries have set themselves up on the stream; capture it."""
        with torch.cuda.device(self._device):
            aside = self._stream()
            with torch.cuda.stream(aside):
                compute()
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=aside):
                outputs = compute()

        def replay() -> Outputs:
            graph.replay()
            return copies(outputs)

        return replay

    def _stream(self) -> torch.cuda.Stream:
        """The stream aside, once all that is enqueued elsewhere precedes what it is given."""
        if self._aside is None:
            self._aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self._pool = torch.cuda.graph_pool_handle()
        self._aside.wait_stream(torch.cuda.current_stream())
        return self._aside


def copies(outputs: Outputs) -> Outputs:
    """Outputs in memory of their own: the next replay overwrites what they were."""
    return tuple(None if each is None else each.clone() for each in outputs)


def eager(compute: Compute) -> Compute:
    """Capture nothing: the static form runs kernel by kernel, as tests on a CPU want it."""
    return compute
