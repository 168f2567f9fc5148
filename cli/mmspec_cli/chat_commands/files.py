"""Commands that take images and conversations from files, and write conversations to them."""

import glob
from itertools import islice
from pathlib import Path

from mmspec.ground.errors import ImageError, MmspecError, UsageError
from mmspec.ground.input_files import expand_home, read_text
from mmspec.ground.json_file import LINES_BYTES
from mmspec.ground.output_files import replace_text
from mmspec.prompt.any_image import open_visual
from mmspec.prompt.conversation import Conversation
from mmspec.prompt.file_kinds import VISUAL_SUFFIXES
from mmspec_cli.chat_commands.turns import BACK, whole_number
from mmspec_cli.terminal.attachments import folder_offer, is_file, typed_path, typed_paths
from mmspec_cli.terminal.conversation_store import ConversationStore
from mmspec_cli.terminal.dialogue import Dialogue
from mmspec_cli.terminal.image_sources import clipboard_picture
from mmspec_terminal.wording import quantity

MOST_SESSIONS = 20
"""The most conversations that /sessions lists, the latest."""

MOST_LETTERS = 60
"""The most letters of a first question that /sessions shows."""


def image(dialogue: Dialogue, argument: str) -> None:
    """Send images with the next question; *.png works. Alone: list all images."""
    if not argument:
        _list_images(dialogue)
        return
    path = typed_path(argument)
    names = [path] if is_file(path, Path.exists) else typed_paths(argument)
    files = [file for name in names for file in _matching(name)]
    try:
        dialogue.stage([open_visual(file, dialogue.setup.sampling) for file in files])
    except ImageError as error:
        end = f"; none of the {len(files)} was added" if len(files) > 1 else ""
        raise ImageError(f"{error}{end}") from error


def _matching(name: str) -> list[str]:
    """The images that a pattern matches, sorted; a name that is no pattern stands for itself."""
    file = str(expand_home(name))
    if Path(file).is_dir():
        raise UsageError(folder_offer(name))
    if not glob.has_magic(file) or Path(file).exists():
        return [name]
    matches = sorted(
        match
        for match in glob.glob(file, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        if match.lower().endswith(VISUAL_SUFFIXES)
    )
    if not matches:
        raise UsageError(f"{name} matches no image: nothing was added")
    return matches


def paste(dialogue: Dialogue) -> None:
    """Send the image on the clipboard."""
    dialogue.stage([clipboard_picture(dialogue.setup.sampling)])


def unstage(dialogue: Dialogue, name: str) -> None:
    """Leave an image out of the next question: the last, or NAME."""
    names = [picture.name for picture in dialogue.next_images]
    if not names:
        raise UsageError("no image is waiting for the next question")
    if name and typed_path(name) not in names:
        raise UsageError(f"{name} is not waiting: {', '.join(names)}")
    place = len(names) - 1 - names[::-1].index(typed_path(name)) if name else -1
    dialogue.notice(f"took back {dialogue.next_images.pop(place).name}")


def _list_images(dialogue: Dialogue) -> None:
    """Show the images of the conversation, then those of the next question."""
    rows = [
        (f"question {number}", picture.name, picture.shape)
        for number, turn in enumerate(dialogue.chat.conversation.turns, 1)
        for picture in turn.question.pictures
    ]
    rows += [("next question", image.name, image.shape) for image in dialogue.next_images]
    if not rows:
        dialogue.notice("no images yet: /image PATH")
        return
    columns = ["with", "image", "size"]
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    dialogue.screen.show({"images": records}, columns, rows)


def save(dialogue: Dialogue, name: str) -> None:
    """Write the conversation to a file, as Markdown if it ends in .md; alone: the file's name."""
    if not name:
        dialogue.notice(f"saved to {dialogue.file}" if dialogue.file else "not saved yet")
        return
    file = expand_home(typed_path(name))
    if file.suffix.lower() in VISUAL_SUFFIXES:
        raise UsageError(f"{name} is an image's name: give one that ends in .json or .md")
    if not file.parent.is_dir():
        raise UsageError(f"{name}: there is no folder {file.parent}: make it, or name another")
    _check_overwriting(dialogue, name, file)
    conversation = dialogue.chat.conversation
    is_markdown = file.suffix.lower() == ".md"
    text = conversation.to_markdown(file.parent) if is_markdown else conversation.to_json()
    replace_text(file, text, private=True)
    dialogue.file = file.resolve()
    dialogue.notice(f"saved to {name}")


def _check_overwriting(dialogue: Dialogue, name: str, file: Path) -> None:
    """Raise UsageError for a file of others, unless .json or .md and the command is repeated."""
    line = f"/save {name}"
    is_repeated, dialogue.refused_line = dialogue.refused_line == line, ""
    if not file.exists() or file.resolve() == dialogue.file:
        return
    if file.suffix.lower() not in (".json", ".md"):
        raise UsageError(f"{name} exists: name a new file, or one that ends in .json or .md")
    if not is_repeated:
        dialogue.refused_line = line
        raise UsageError(f"{name} exists: overwrite it? {line} again does, another name does not")


def load(dialogue: Dialogue, name: str) -> None:
    """Go on with a conversation from a file; alone: as /sessions."""
    if not name:
        sessions(dialogue, "")
        return
    file = expand_home(typed_path(name))
    if go_on(dialogue, file, name):
        dialogue.file = file.resolve()


def sessions(dialogue: Dialogue, argument: str) -> None:
    """List the conversations of earlier chats, or go on with one."""
    files = [*islice(ConversationStore().files(), None if argument else MOST_SESSIONS)]
    if not files:
        dialogue.notice("no conversation was kept yet")
    elif argument:
        file = files[whole_number("/sessions", argument, len(files)) - 1]
        go_on(dialogue, file.path, file.name, is_kept=True)
    else:
        rows = [
            (str(number), file.when, file.model, str(file.questions), file.first[:MOST_LETTERS])
            for number, file in enumerate(files, 1)
        ]
        columns = ("", "written", "model", "questions", "first question")
        records = [dict(zip(("number", *columns[1:]), row, strict=True)) for row in rows]
        dialogue.screen.show({"sessions": records}, columns, rows)


def go_on(dialogue: Dialogue, file: Path, name: str, *, is_kept: bool = False) -> bool:
    """Replace the conversation; False if an image is lost, so that `file` alone still names it.

    is_kept: whether it goes on in this file, unless an image is lost.
    """
    if file.suffix.lower() == ".md":
        raise UsageError(f"{name} is Markdown, which is not read back: name a .json of /save")
    errors: list[ImageError] = []
    try:
        conversation = Conversation.from_json(read_text(file, LINES_BYTES), errors)
        is_undoable = dialogue.resume(conversation, file if is_kept and not errors else None)
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror})") from error
    except MmspecError as error:
        raise UsageError(f"{name} was not loaded: {error}") from error
    dialogue.screen.note(*(f"without an image: {reason}" for reason in errors))
    questions = quantity(len(conversation.turns), "question")
    loss = f", without {quantity(len(errors), 'image')}" if errors else ""
    dialogue.notice(f"went on from {name}: {questions}{loss}" + BACK * is_undoable)
    return not errors
