"""What is typed while an answer streams: kept for the next prompt, and shown only there."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

FLAGS, CHARACTERS = 3, 6
"""Where termios keeps the local flags and the control characters."""


@contextmanager
def hidden_typing() -> Iterator[None]:
    """Inside, the terminal of stdin shows no keys, and Ctrl-D waits like any other.

    It is as it was outside, however that is reached, and while Ctrl-Z has stopped the command.
    Does nothing where there are no such terminals.
    """
    try:
        import termios
    except ImportError:
        yield
        return
    terminal = sys.stdin.fileno()
    shown = termios.tcgetattr(terminal)
    hidden = _hidden(shown, termios)

    def become(attributes: list[Any]) -> None:
        if os.tcgetpgrp(terminal) == os.getpgrp():  # in the background it is somebody else's
            termios.tcsetattr(terminal, termios.TCSANOW, attributes)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        become(shown)
        with _handling_stops(signal.SIG_DFL):
            signal.raise_signal(signal.SIGTSTP)  # here the command stands still
        become(hidden)

    with _handling_stops(stop):
        become(hidden)
        try:
            yield
        finally:
            become(shown)


@contextmanager
def _handling_stops(handler: Any) -> Iterator[None]:
    """Handle Ctrl-Z so, unless it is ignored."""
    previous = signal.getsignal(signal.SIGTSTP)
    if previous is not signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, previous)


def _hidden(shown: list[Any], termios: Any) -> list[Any]:
    hidden = [*shown[:CHARACTERS], [*shown[CHARACTERS]]]
    hidden[FLAGS] &= ~(termios.ECHO | termios.ECHONL)
    hidden[FLAGS] |= termios.NOFLSH  # Ctrl-C drops neither what was typed nor what was said
    # Else the end of the input would be taken in now, by nobody, and never reach the prompt.
    hidden[CHARACTERS][termios.VEOF] = bytes([os.fpathconf(sys.stdin.fileno(), "PC_VDISABLE")])
    return hidden
