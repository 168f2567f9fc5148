"""Commands about the images of a chat."""

import glob
from pathlib import Path

from mmspec.ground.errors import ImageError, UsageError
from mmspec.ground.paths import expand_home
from mmspec.prompt.any_image import open_visual
from mmspec.prompt.file_kinds import VISUAL_SUFFIXES
from mmspec_cli.chat_commands import words
from mmspec_cli.terminal.dialogue import Dialogue
from mmspec_cli.terminal.image_sources import clipboard_picture


def image(dialogue: Dialogue, typed: str) -> None:
    """Stage the images and clips of one path, or of several paths and patterns."""
    alone = words.path(typed)
    named = [alone] if expand_home(alone).exists() else words.paths(typed)
    files = [file for name in named for file in _matching(name)]
    try:
        dialogue.stage([open_visual(file, dialogue.sampling) for file in files])
    except ImageError as error:
        others = f"; none of the {len(files)} was added" if len(files) > 1 else ""
        raise ImageError(f"{error}{others}") from error


def _matching(name: str) -> list[str]:
    """The images that a pattern matches, sorted; a name that is no pattern stands for itself."""
    file = str(expand_home(name))
    if not glob.has_magic(file) or Path(file).exists():
        return [name]
    matches = sorted(
        each
        for each in glob.glob(file, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        if each.lower().endswith(VISUAL_SUFFIXES)
    )
    if not matches:
        raise UsageError(f"{name} matches no image: nothing was added")
    return matches


def paste(dialogue: Dialogue, _: str) -> None:
    """Stage the image on the clipboard."""
    dialogue.stage([clipboard_picture(dialogue.sampling)])


def unstage(dialogue: Dialogue, name: str) -> None:
    """Take back the last staged image, or the one called `name`."""
    names = [picture.name for picture in dialogue.staged]
    if not names:
        raise UsageError("no image is waiting for the next question")
    if name and words.path(name) not in names:
        raise UsageError(f"{name} is not waiting: {', '.join(names)}")
    place = len(names) - 1 - names[::-1].index(words.path(name)) if name else -1
    dialogue.notice(f"took back {dialogue.staged.pop(place).name}")


def images(dialogue: Dialogue, _: str) -> None:
    """List the images of the conversation and those staged."""
    rows = [
        (f"question {number}", picture)
        for number, turn in enumerate(dialogue.chat.conversation.turns, 1)
        for picture in turn.question.pictures
    ]
    rows += [("next question", picture) for picture in dialogue.staged]
    if not rows:
        dialogue.notice("no images yet: /image PATH")
        return
    columns = ["with", "image", "size"]
    cells = [[where, picture.name, picture.shape] for where, picture in rows]
    dialogue.show(
        {"images": [dict(zip(columns, row, strict=True)) for row in cells]}, columns, cells
    )
