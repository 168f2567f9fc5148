"""Commands that write conversations to files and read them."""

import time
from collections.abc import Sequence
from pathlib import Path

from mmspec.ground.errors import ImageError, MmspecError, UsageError
from mmspec.ground.input_files import require_file
from mmspec.ground.output_files import replace_text
from mmspec.ground.paths import expand_home
from mmspec.prompt.conversation import Conversation
from mmspec_cli.chat_commands import words
from mmspec_cli.chat_commands.turns import BACK
from mmspec_cli.terminal.dialogue import Dialogue
from mmspec_cli.terminal.kept_conversations import Kept, kept_conversations

MOST_LISTED = 20
"""The most conversations that /sessions lists, the latest."""

MOST_SHOWN = 60
"""The most letters of a first question that /sessions shows."""


def save(dialogue: Dialogue, name: str) -> None:
    """Write the conversation to a file; a file that is not this chat's only when said twice."""
    file = expand_home(words.path(name))
    _check_overwriting(dialogue, name, file)
    replace_text(file, dialogue.chat.conversation.to_json(), private=True)
    dialogue.file = file.resolve()
    dialogue.notice(f"saved to {name}")


def _check_overwriting(dialogue: Dialogue, name: str, file: Path) -> None:
    line = f"/save {name}"
    repeated, dialogue.refused = dialogue.refused == line, ""
    if not file.exists() or file.resolve() == dialogue.file:
        return
    if file.suffix != ".json":
        raise UsageError(f"{name} exists: name a new file, or one that ends in .json")
    if not repeated:
        dialogue.refused = line
        raise UsageError(f"{name} exists: overwrite it? {line} again does, another name does not")


def load(dialogue: Dialogue, name: str) -> None:
    """Go on with the conversation in a file, without images that are no longer there."""
    file = expand_home(words.path(name))
    if _go_on(dialogue, file, name):
        dialogue.file = file.resolve()


def sessions(dialogue: Dialogue, argument: str) -> None:
    """List the kept conversations, or go on with one by its number in that list."""
    listed = kept_conversations().listed()
    if not listed:
        dialogue.notice("no conversation was kept yet")
    elif argument:
        number = words.count("/sessions", argument)
        if not 1 <= number <= len(listed):
            raise UsageError(f"/sessions {number}: give a number from 1 to {len(listed)}")
        go_on(dialogue, listed[number - 1])
    else:
        _list(dialogue, listed[:MOST_LISTED])


def _list(dialogue: Dialogue, listed: Sequence[Kept]) -> None:
    rows = [
        (str(number), when(kept), kept.model, str(kept.questions), kept.first[:MOST_SHOWN])
        for number, kept in enumerate(listed, 1)
    ]
    columns = ("", "written", "model", "questions", "first question")
    records = [dict(zip(("number", *columns[1:]), row, strict=True)) for row in rows]
    dialogue.show({"sessions": records}, columns, rows)


def go_on(dialogue: Dialogue, kept: Kept) -> None:
    """Go on with a kept conversation, in its file unless an image of it is lost."""
    _go_on(dialogue, kept.file, f"the conversation of {when(kept)}", kept.file)


def when(kept: Kept) -> str:
    """When a conversation was written, in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.written))


def _go_on(dialogue: Dialogue, file: Path, name: str, kept: Path | None = None) -> bool:
    """Replace the conversation; False if an image is lost, so that `file` alone still names it."""
    lost: list[ImageError] = []
    text = _read(file, name)
    try:
        conversation = Conversation.from_json(text, lost)
        undoable = dialogue.resume(conversation, None if lost else kept)
    except MmspecError as error:
        raise UsageError(f"{name} was not loaded: {error}") from error
    for reason in lost:
        dialogue.screen.note(f"without an image: {reason}")
    questions = words.counted(len(conversation.turns), "question")
    dialogue.notice(f"went on from {name}: {questions}" + BACK * undoable)
    return not lost


def _read(file: Path, name: str) -> str:
    try:
        require_file(file)
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} cannot be read (not text in UTF-8)") from error
