"""Input at a terminal: editing, history, completion of commands and paths.

Imported only if a person types, because prompt_toolkit loads slowly.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.shortcuts import CompleteStyle

from mmspec.ground.escape import visible
from mmspec.ground.input_files import require_file
from mmspec.prompt.file_kinds import VISUAL_SUFFIXES
from mmspec_cli.terminal.conversation_store import state_directory
from mmspec_cli.terminal.interrupt import handle_ending

FILE_COMMANDS = ("/load", "/save")
PATH_COMMANDS = ("/image", *FILE_COMMANDS)


class LineEditor:
    """Reads one question at a time from a person; pasted lines are one question."""

    def __init__(self, commands: Sequence[str], *, private: bool = False) -> None:
        """private: keep no history in a file."""
        output = create_output()
        output.enable_cpr = False  # type: ignore[attr-defined]  # not every terminal answers
        self._session: PromptSession[str] = PromptSession(
            output=output,
            history=InMemoryHistory() if private else open_history(),
            completer=ChatCompleter(commands),
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            enable_suspend=True,
            reserve_space_for_menu=0,
        )
        self._end: SystemExit | None = None
        """Set by a signal; one that comes just after Enter finds a prompt that has ended."""

    def __call__(self, prompt: str) -> str:
        """The typed question; raises EOFError, or KeyboardInterrupt on Ctrl-C."""
        with handle_ending(self._leave):
            line = self._session.prompt(prompt)
            if self._end:
                raise self._end
        return line

    def _leave(self, number: int, _frame: FrameType | None) -> None:
        """End the prompt through its event loop: SystemExit raised here might end only one task."""
        self._end = end = SystemExit(128 + number)
        app = self._session.app
        if app.loop is None or not app.is_running:
            raise end
        app.loop.call_soon_threadsafe(partial(_exit, app, end))


def _exit(app: Application[str], end: SystemExit) -> None:
    """End the prompt, unless Enter or another signal has ended it."""
    if app.future and not app.future.done():
        app.exit(exception=end)


def open_history() -> History:
    """The history of questions: in a file that only its owner can read, or in memory alone."""
    file = state_directory() / "history"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        require_file(file)  # a link to /dev/null would lose the device's permissions
        file.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return PrivateHistory(file)


class PrivateHistory(FileHistory):
    """A history in a file; a full disk does not end the chat."""

    def store_string(self, string: str) -> None:
        """Append an entry to the history's file."""
        with suppress(OSError):
            super().store_string(string)


class ChatCompleter(Completer):
    """Completes commands, and paths after a command that takes one or in a word with a slash."""

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = commands
        self._images = PathCompleter(
            expanduser=True,
            file_filter=lambda path: path.lower().endswith(VISUAL_SUFFIXES) or Path(path).is_dir(),
        )
        self._files = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """Yield completions of the text before the cursor, none with control characters."""
        line = document.text_before_cursor
        commands = [name for name in self._commands if line and name.startswith(line)]
        if commands:
            yield from (Completion(name, start_position=-len(line)) for name in commands)
            return
        start = _path_start(line)
        files = self._files if line.startswith(FILE_COMMANDS) else self._images
        text = re.sub(r"\\(.)", r"\1", start)
        for completion in files.get_completions(Document(text), event) if start else ():
            if visible(completion.display_text) != completion.display_text:
                continue
            slash = "/" if completion.display_text.endswith("/") else ""
            yield Completion(re.sub(r"([\s\\\"'])", r"\\\1", completion.text) + slash)


def _path_start(line: str) -> str:
    """The end of the line if it is the beginning of a path, else ''."""
    command, _, argument = line.partition(" ")
    if command in PATH_COMMANDS:
        return argument.lstrip()
    # A space behind a backslash is part of the word.
    word = re.split(r"(?<!\\)\s", line)[-1]
    return word if "/" in word or word.startswith("~") else ""
