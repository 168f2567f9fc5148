"""Prompts for checks and benchmarks, from the command line or a file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mmspec.ground.errors import UsageError
from mmspec.ground.input_files import expand_home
from mmspec.ground.json_file import Length, parse_lines, read_lines
from mmspec.prompt.any_image import open_visual
from mmspec.prompt.clips import EVENLY, FrameSampling
from mmspec.prompt.conversation import Message
from mmspec.prompt.images import Picture

FORMAT = 'give lines {"prompt": TEXT, "images": [FILE, ...]}'


@dataclass(frozen=True, slots=True)
class Prompt:
    """A user message with the name that it has in reports."""

    name: str
    message: Message


def user_prompt(text: str, pictures: Sequence[Picture] = (), name: str = "") -> Prompt:
    """A question after its images; `text` is taken literally."""
    return Prompt(name or text[:40], Message("user", (*pictures, text)))


def typed_prompts(
    texts: Iterable[str], images: Sequence[str], sampling: FrameSampling = EVENLY
) -> list[Prompt]:
    """Questions from the command line, each about all of the images and clips."""
    pictures = [open_visual(image, sampling) for image in images]
    prompts = [user_prompt(text, pictures) for text in texts]
    if pictures and not prompts:
        raise UsageError("images need a question: give `prompt=TEXT`")
    return prompts


def read_prompts(path: Path) -> list[Prompt]:
    """Read JSON lines `{"prompt": TEXT, "images": [FILE, ...]}`; images are relative to the file.

    Raises UsageError naming the file and line of a malformed entry, and ImageError.
    """
    prompts = list[Prompt]()
    for number, entry in parse_lines(_PromptLine, read_lines(path), path, f": {FORMAT}"):
        pictures = [open_visual(path.parent / expand_home(image)) for image in entry.images]
        prompts.append(user_prompt(entry.prompt, pictures, f"{path.name}:{number}"))
    if not prompts:
        raise UsageError(f"{path} holds no prompt: {FORMAT}")
    return prompts


@dataclass(frozen=True, slots=True)
class _PromptLine:
    """One line of the file."""

    prompt: Annotated[str, Length(1, 10_000_000)]
    images: tuple[str, ...] = ()
