"""A pseudo-terminal with a command in it: what a person types and sees."""

import os
import re
import select
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.commands import start_process

fcntl, pty, termios = map(pytest.importorskip, ("fcntl", "pty", "termios"))

PATIENCE = 120
"""Seconds; a busy machine may take long to start."""

TEXT = r"tokens\x1b\[0m\r\x1b\[2K(?!\x1b\[2mreading)(?:[^\x1b]|\x1b\[[\d;]*m){30}"
"""The first of an answer, some of it in colours: what follows the last line of progress."""

PROMPT = r"\x1b\[\?2004h(?:\x1b\[[\d;?]*[A-Za-z])*(?:\[.*?\] )?>"
"""A prompt: bracketed paste is switched on where one begins."""

OWN = r"\x1b\[[\d;?]*[A-Za-z]"
"""The colours, erasures and cursor movements of the commands themselves."""

MODES = {"?25h": "?25l", "?2004l": "?2004h"}
"""Modes of a terminal that a command changes, as it finds them and changed."""


class Terminal:
    """A process at a pseudo-terminal of its own: `main` with its arguments."""

    def __init__(
        self,
        main: Callable[[list[str]], int],
        arguments: list[str],
        directory: Path,
        columns: int = 80,
        pixels: int = 0,
        **variables: str,
    ) -> None:
        self.screen = ""
        self.read_to = 0
        self.fd, terminal = pty.openpty()
        self._before = termios.tcgetattr(self.fd)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, pixels, pixels))
        variables |= {"TERM": "xterm-256color", "XDG_STATE_HOME": str(directory), "NO_COLOR": ""}
        self.process = start_process(main, arguments, terminal, directory, variables)
        os.close(terminal)

    def echoes(self) -> bool:
        """Whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def changes(self) -> list[Any]:
        """What a command that has ended left otherwise than it found it."""
        after = termios.tcgetattr(self.fd)
        settings = [pair for pair in zip(self._before, after, strict=True) if pair[0] != pair[1]]
        return settings + [
            changed
            for found, changed in MODES.items()
            if self.screen.rfind(f"\x1b[{changed}") > self.screen.rfind(f"\x1b[{found}")
        ]

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def enter(self, line: str, shown: str = "") -> str:
        """Type a line; what comes up to the prompt after what is to be shown."""
        self.type(f"{line}\r")
        return self.wait(shown + r"[\s\S]*?" + PROMPT)

    def wait(self, pattern: str) -> str:
        """Read until `pattern` appears after what was waited for last; return what came."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.screen[self.read_to :])):
            ready, _, _ = select.select([self.fd], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"no {pattern!r} in {self.screen[self.read_to :]!r}"
            more = self._read()
            assert more, f"the child left: {self.screen[self.read_to :]!r}"
            self.screen += more
        came = self.screen[self.read_to : self.read_to + found.end()]
        self.read_to += found.end()
        return came

    def watch(self, seconds: float) -> None:
        """Read what comes within some seconds, or until the child leaves."""
        deadline = time.monotonic() + seconds
        while select.select([self.fd], [], [], max(deadline - time.monotonic(), 0))[0]:
            more = self._read()
            self.screen += more
            if not more:
                return

    def _read(self) -> str:
        try:
            return os.read(self.fd, 65536).decode(errors="replace")
        except OSError:  # Linux's end of file once the child has gone
            return ""

    def status(self) -> int:
        """Read to the end and return the exit status."""
        while more := self._read():
            self.screen += more
        self.process.join()
        return self.process.exitcode
