"""Delays Ctrl-C, SIGTERM and SIGHUP while a run writes state that must stay consistent."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP until the end of the block.

    Does nothing outside the main thread, which is the only one that receives signals.
    """
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


@contextmanager
def blocked_in_children() -> Iterator[None]:
    """Block Ctrl-C, SIGTERM and SIGHUP for good in each process that the block starts.

    A signal to the whole process group is then handled by this process alone.
    """
    resource_tracker.ensure_running()  # starting one within the block would end the blocking
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
