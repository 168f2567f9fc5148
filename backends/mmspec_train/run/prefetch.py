"""Batches made ahead by a thread, and signals delayed while a run writes state."""

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from mmspec_train.run.machine import Item

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AHEAD = 16
"""Number of batches of a source that are made ahead."""
Source = Callable[[int], Iterator[Item]]
"""Function that yields batches from a number on, without end, in a fixed order."""


def prefetch(source: Source[Item], start: int, maker: ThreadPoolExecutor) -> Iterator[Item]:
    """Yield batches `start`, `start` + 1, ... made by `maker`'s thread; raises as it did."""
    batches = source(start)
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
