"""Commands that write conversations to files and read them."""

from pathlib import Path

from mmspec.checkpoints.paths import expand_home
from mmspec.errors import ImageError, MmspecError, UsageError
from mmspec.output_files import replace_text
from mmspec.prompt.conversation import Conversation
from mmspec_cli.chat_commands import words
from mmspec_cli.chat_commands.turns import BACK
from mmspec_cli.terminal.dialogue import Dialogue


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
    lost: list[ImageError] = []
    text = _read(file, name)
    try:
        conversation = Conversation.from_json(text, lost)
        undoable = dialogue.resume(conversation)
    except MmspecError as error:
        raise UsageError(f"{name} was not loaded: {error}") from error
    dialogue.file = file.resolve()
    for reason in lost:
        dialogue.screen.note(f"without an image: {reason}")
    questions = words.counted(len(conversation.turns), "question")
    dialogue.notice(f"went on from {name}: {questions}" + BACK * undoable)


def _read(file: Path, name: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} cannot be read (not text in UTF-8)") from error
