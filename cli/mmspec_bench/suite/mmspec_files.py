"""MMSpec (arXiv 2603.14989) as it is distributed: a file of conversations beside its images."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from mmspec.ground.errors import UsageError
from mmspec.ground.json_file import Length, read_lines, typed_lines
from mmspec.prompt.conversation import IMAGE_MARKER, Message, interleaved
from mmspec.prompt.images import open_picture
from mmspec_bench.suite.samples import SuiteSample

MMSPEC = "mmspec"
"""The name that --suite takes, with a folder."""
FILES = ("test/mmspec.jsonl", "mmspec.jsonl")
Text = Annotated[str, Length(1, 100_000)]


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A line of `mmspec.jsonl`, all about one image."""

    id: Text
    image: Text
    turns: Annotated[list[Text], Length(1, 100)]
    topic: Text


def mmspec_samples(folder: Path, limit: int | None) -> Iterator[SuiteSample]:
    """The first `limit` conversations of each topic, which is their task; raises UsageError."""
    file = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if file is None:
        raise UsageError(f"--suite {MMSPEC}={folder}: there is no {' or '.join(FILES)}")
    counts = Counter[str]()
    for _, one in typed_lines(_Conversation, read_lines(file), file):
        counts[one.topic] += 1
        if limit is None or counts[one.topic] <= limit:
            read = partial(_questions, file.parent / "images" / one.image, *one.turns)
            yield SuiteSample(f"{one.topic}/{one.id}", one.topic, read)


def _questions(image: Path, text: str, *later: str) -> tuple[Message, ...]:
    """A question about an image, and those after it."""
    if text.count(IMAGE_MARKER) > 1:
        raise UsageError(f"{image}: its question has more than one {IMAGE_MARKER}")
    return interleaved(text, [open_picture(image)]), *(Message("user", (each,)) for each in later)
