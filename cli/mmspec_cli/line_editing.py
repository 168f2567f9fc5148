"""Typing questions at a terminal: history, completion of commands and paths."""

import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from mmspec.paths import typed_path
from mmspec_cli.attachments import SUFFIXES

KEPT_LINES = 1000
PATH_COMMANDS = ("/image", "/load", "/save")


def history_file() -> Path:
    """Where lines are kept: under $XDG_STATE_HOME, by default ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return typed_path(state) / "mmspec" / "history"


@contextmanager
def line_editing(commands: Sequence[str]) -> Iterator[None]:
    """Let `input` edit, complete and remember; without readline it only reads.

    A history that cannot be read or written is left alone.
    """
    try:
        import readline
    except ImportError:
        yield
        return
    readline.set_completer_delims(" \t\n")
    readline.set_completer(Completer(commands))
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    file = history_file()
    with suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        readline.set_completer(None)
        readline.set_history_length(KEPT_LINES)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)


class Completer:
    """Readline's completer: called with 0, 1, ... until it returns None."""

    def __init__(self, commands: Sequence[str]) -> None:
        """Complete these command names, and paths."""
        self._commands = commands
        self._found: list[str] = []

    def __call__(self, text: str, state: int) -> str | None:
        """Return the completion numbered `state`."""
        if state == 0:
            line, begin = _line_so_far(text)
            self._found = completions(line, begin, self._commands)
        return self._found[state] if state < len(self._found) else None


def _line_so_far(text: str) -> tuple[str, int]:
    import readline

    end = readline.get_endidx()
    return readline.get_line_buffer()[:end], end - len(text)


def completions(line: str, begin: int, commands: Sequence[str]) -> list[str]:
    """What may stand in place of `line[begin:]`, the word before the cursor.

    Paths are completed after a command that takes one, and wherever a word holds a slash.
    """
    if begin == 0 and line.startswith("/"):
        named = [command for command in commands if command.startswith(line)]
        if named or "/" not in line[1:]:
            return named
    command, _, rest = line.partition(" ")
    if command in PATH_COMMANDS:
        start = len(line) - len(rest.lstrip())
    else:
        start = _word_start(line)
        if "/" not in line[start:] and not line[start:].startswith("~"):
            return []
    anything = command in PATH_COMMANDS[1:]
    return [_escaped(path)[begin - start :] for path in _paths(line[start:], anything)]


def _word_start(line: str) -> int:
    """Where the last word begins; a space behind a backslash is part of it."""
    gaps = list(re.finditer(r"(?<!\\)\s", line))
    return gaps[-1].end() if gaps else 0


def _paths(typed: str, anything: bool) -> list[str]:
    """Existing paths that begin with `typed`: folders, and images or any file."""
    plain = re.sub(r"\\(.)", r"\1", typed)
    home = os.path.expanduser(plain)  # noqa: PTH111 - Path would drop a trailing slash
    found = []
    for path in sorted(glob.glob(glob.escape(home) + "*")):  # noqa: PTH207 - likewise
        shown = plain + path[len(home) :]
        if Path(path).is_dir():
            found.append(f"{shown}/")
        elif anything or path.lower().endswith(SUFFIXES):
            found.append(shown)
    return found


def _escaped(path: str) -> str:
    return re.sub(r"([\s\\\"'])", r"\\\1", path)


def is_interactive() -> bool:
    """Whether somebody types at a terminal and reads the answers there."""
    return sys.stdin.isatty() and sys.stdout.isatty()
