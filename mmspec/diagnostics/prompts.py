"""Prompts for checks and benchmarks, from the command line or a file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mmspec.ground.errors import UsageError
from mmspec.ground.input_files import expand_home
from mmspec.ground.json_file import read_lines
from mmspec.ground.json_reader import MismatchError, parse_json, read_value
from mmspec.ground.limits import Length
from mmspec.prompt.any_image import open_visual
from mmspec.prompt.clips import EVENLY, FrameSampling
from mmspec.prompt.conversation import Message
from mmspec.prompt.images import Picture


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
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            entry = _entry(line, f"{path}:{number}")
            pictures = [open_visual(path.parent / expand_home(image)) for image in entry.images]
            prompts.append(user_prompt(entry.prompt, pictures, f"{path.name}:{number}"))
    if not prompts:
        raise UsageError(f'{path} holds no prompt: give lines {{"prompt": ..., "images": [...]}}')
    return prompts


@dataclass(frozen=True, slots=True)
class _PromptLine:
    """One line of the file."""

    prompt: Annotated[str, Length(1, 10_000_000)]
    images: tuple[str, ...] = ()


def _entry(line: str, where: str) -> _PromptLine:
    try:
        return read_value(_PromptLine, parse_json(line))
    except MismatchError as error:
        raise UsageError(f'{where}: give {{"prompt": TEXT, "images": [FILE, ...]}}') from error
    except ValueError as error:
        raise UsageError(f"{where}: not JSON ({error})") from error
