"""Handles keys and signals during an answer: Ctrl-C, Ctrl-Z, typing ahead, termination."""

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

ENDING = (signal.SIGTERM,) if sys.platform == "win32" else (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command: a request, and the terminal's or the connection's end."""

LOCAL_FLAGS = 3
"""Index of the local flags in the list of termios' attributes."""

MARK_PASTES, UNMARK_PASTES = b"\x1b[?2004h", b"\x1b[?2004l"
"""What lets a terminal mark the ends of what is pasted, and no longer."""


@dataclass(slots=True)
class Interrupt:
    """The state of Ctrl-C during an answer."""

    is_requested: bool = False
    """True if Ctrl-C was pressed."""
    is_settled: bool = False
    """True if Ctrl-C is ignored, because the work that it would stop has ended."""


def leave(number: int, _frame: FrameType | None) -> None:
    """Raise SystemExit with a shell's status: every block that restores something does it."""
    raise SystemExit(128 + number)


@contextmanager
def handle_ending(handler: Any = leave, numbers: Iterable[int] = ENDING) -> Iterator[None]:
    """Context in which `handler` handles signals; one that is ignored stays so, as nohup's SIGHUP.

    Only in the main thread, which alone receives signals.
    """
    is_main = threading.current_thread() is threading.main_thread()
    with ExitStack() as stack:
        for number in numbers if is_main else ():
            if signal.getsignal(number) is not signal.SIG_IGN:
                stack.enter_context(handle_signal(number, handler))
        yield


@contextmanager
def defer_interrupt() -> Iterator[Interrupt]:
    """Context in which the first Ctrl-C only sets `is_requested`, which a loop checks.

    A second one raises KeyboardInterrupt at once; later ones are ignored, as are all once it
    `is_settled`.
    """
    interrupt = Interrupt()

    def request(_signal: int, _frame: FrameType | None) -> None:
        if interrupt.is_settled:
            return
        if interrupt.is_requested:
            interrupt.is_settled = True
            raise KeyboardInterrupt
        interrupt.is_requested = True

    with handle_signal(signal.SIGINT, request):
        yield interrupt


@contextmanager
def hide_typing() -> Iterator[None]:
    """Context in which the terminal does not echo keys and saves them for the next prompt.

    The terminal marks the ends of what is pasted, as at a prompt: its lines stay one question.
    Ctrl-C and Ctrl-Z still work. The terminal's settings are restored on leaving and while Ctrl-Z
    suspends the command. Does nothing without termios.
    """
    try:
        import termios
    except ImportError:
        yield
        return
    terminal = sys.stdin.fileno()
    original = termios.tcgetattr(terminal)
    silent = [*original]
    silent[LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
    silent[LOCAL_FLAGS] |= termios.NOFLSH  # Ctrl-C drops neither what was typed nor the output
    has_modes = os.environ.get("TERM") != "dumb"

    def become(attributes: list[Any]) -> None:
        pastes = MARK_PASTES if attributes is silent else UNMARK_PASTES
        with suppress(OSError, termios.error):  # a terminal that was closed
            if os.tcgetpgrp(terminal) == os.getpgrp():  # in the background it is another job's
                termios.tcsetattr(terminal, termios.TCSANOW, attributes)
                os.write(sys.stdout.fileno(), pastes * has_modes)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        become(original)
        with handle_signal(signal.SIGTSTP, signal.SIG_DFL):
            signal.raise_signal(signal.SIGTSTP)  # suspended here until the shell continues it
        become(silent)

    is_ignored = signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN
    with handle_signal(signal.SIGTSTP, signal.SIG_IGN if is_ignored else stop):
        become(silent)
        try:
            yield
        finally:
            become(original)


@contextmanager
def handle_signal(number: int, handler: Any) -> Iterator[None]:
    """Context in which `handler` handles the signal `number`."""
    previous = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous)
