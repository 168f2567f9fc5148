"""Ctrl-C while an answer is being made; signals that end a run."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class Interrupt:
    """Whether Ctrl-C has been pressed, and whether it still means anything."""

    requested: bool = False
    settled: bool = False

    def settle(self) -> None:
        """Let Ctrl-C do nothing from here on: what it would stop has ended."""
        self.settled = True


@contextmanager
def orderly_end() -> Iterator[None]:
    """Inside, SIGTERM raises SystemExit with the status that a shell gives such an end, 143."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def deferred_interrupt() -> Iterator[Interrupt]:
    """Inside, the first Ctrl-C only sets `requested`, for a loop to act on where it can.

    A second one raises KeyboardInterrupt at once, for whoever cannot wait; any after that, or once
    all is settled, does nothing.
    """
    interrupt = Interrupt()

    def request(_signal: int, _frame: FrameType | None) -> None:
        if interrupt.settled:
            return
        if interrupt.requested:
            interrupt.settle()
            raise KeyboardInterrupt
        interrupt.requested = True

    previous = signal.signal(signal.SIGINT, request)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, previous)
