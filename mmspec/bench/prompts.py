"""Prompts that measurements share: drawn by the project, or read from a file."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, zip_longest
from pathlib import Path
from typing import Any

from mmspec.bench.world import TASKS, Turn, sample
from mmspec.conversation import Message
from mmspec.engine import Engine
from mmspec.errors import UsageError
from mmspec.images import Picture, open_picture, picture_from
from mmspec.jsonfile import read_lines
from mmspec.paths import typed_path

MARKER = "<image>"
ONE_IMAGE = ("general", "detail", "chart", "text", "reasoning", "caption")
"""Tasks of the drawn world whose first question is about one image."""
TEXTS = (
    "Explain in three sentences how a rainbow forms.",
    "Write a short story about a lighthouse keeper and a lost bird.",
    "List five fruits and say what each tastes like.",
    "What is the difference between weather and climate?",
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question, its images in place, under a name that reports show."""

    name: str
    message: Message


def asked(text: str, pictures: Sequence[Picture] = (), name: str = "") -> Prompt:
    """A question after its images; the text is taken literally."""
    return Prompt(name or text[:40], Message("user", (*pictures, text)))


def question(turn: Turn, pictures: Sequence[Picture]) -> Message:
    """A drawn question as a message, its images where their markers stand, else in front."""
    texts = turn.question.split(MARKER)
    if len(texts) == 1:
        return Message("user", (*pictures, turn.question))
    pairs = zip_longest(texts, pictures)
    return Message("user", tuple(part for pair in pairs for part in pair if part))


def drawn(
    count: int, *, size: int, tasks: Sequence[str] = ONE_IMAGE, seed: int = 0
) -> list[Prompt]:
    """First questions of held-out samples, task by task; images of `size` x `size` pixels."""
    for task in tasks:
        if task not in TASKS:
            raise UsageError(f"no task {task!r}: use {', '.join(TASKS)}")
    return [_drawn(task, seed + n, size) for n, task in enumerate(islice(cycle(tasks), count))]


def _drawn(task: str, seed: int, size: int) -> Prompt:
    made = sample(task, seed, split="held-out", size=size)
    turn = made.turns[0]
    names = (f"{task}-{seed}-{n}" for n in range(turn.images))
    pictures = [picture_from(image, name) for image, name in zip(made.images, names, strict=False)]
    return Prompt(f"{task}-{seed}", question(turn, pictures))


def written(count: int) -> list[Prompt]:
    """Questions without images, for models that see none."""
    return [asked(text) for text in islice(cycle(TEXTS), count)]


def read_prompts(path: Path) -> list[Prompt]:
    """Read JSON lines `{"prompt": TEXT, "images": [FILE, ...]}`; images are relative to the file.

    Raises UsageError naming the file and line that is not of this form, and ImageError.
    """
    prompts = list(_parsed(path, read_lines(path)))
    if not prompts:
        raise UsageError(f'{path} holds no prompt: give lines {{"prompt": ..., "images": [...]}}')
    return prompts


def _parsed(path: Path, lines: Sequence[str]) -> Iterator[Prompt]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        text, images = _fields(line, f"{path}:{number}")
        pictures = [open_picture(path.parent / typed_path(image)) for image in images]
        yield asked(text, pictures, f"{path.name}:{number}")


def _fields(line: str, where: str) -> tuple[str, list[str]]:
    try:
        value: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: not JSON ({error.msg})") from error
    match value:
        case {"prompt": str(text), **rest} if text:
            images = rest.get("images", [])
            if isinstance(images, list) and all(isinstance(image, str) for image in images):
                return text, images
    raise UsageError(f'{where}: give {{"prompt": TEXT, "images": [FILE, ...]}}')


def default_prompts(engine: Engine, count: int) -> list[Prompt]:
    """Drawn questions for a target that sees images, written ones for one that does not."""
    vision = engine.target.model.config.vision
    return drawn(count, size=vision.image_size) if vision else written(count)
