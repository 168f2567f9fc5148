"""Batches made ahead by a thread, and signals delayed while a run writes state."""

import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AHEAD = 16
"""Number of batches of a source that are made ahead."""
Batch = TypeVar("Batch", covariant=True)


class Source(Protocol[Batch]):
    """An endless sequence of batches in a fixed order."""

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield batches number `start`, `start` + 1, ..., without end."""


def prefetch(source: Source[Batch], start: int, maker: ThreadPoolExecutor) -> Iterator[Batch]:
    """Yield batches `start`, `start` + 1, ... made by `maker`'s thread; raises as it did."""
    batches = source.batches(start)
    ahead = deque(maker.submit(next, batches) for _ in range(AHEAD))
    while True:
        yield ahead.popleft().result()
        ahead.append(maker.submit(next, batches))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP to the end of the block, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {
        ending: signal.signal(ending, lambda number, _: received.append(number))
        for ending in ENDING
    }
    try:
        yield
    finally:
        for ending, handler in handlers.items():
            signal.signal(ending, handler)
    for number in received[:1]:
        signal.raise_signal(number)
