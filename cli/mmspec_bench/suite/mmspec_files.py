"""The MMSpec benchmark (arXiv 2603.14989) as it is distributed: `mmspec.jsonl` beside `images`.

Its topics are the tasks of the suite.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from mmspec.ground.errors import UsageError
from mmspec.ground.json_file import read_lines
from mmspec.ground.limits import Length
from mmspec.prompt.conversation import Message
from mmspec.prompt.images import open_picture
from mmspec_bench.suite.original_files import parsed
from mmspec_bench.suite.samples import SuiteSample

NAME = "mmspec"
PLACES = ("test/mmspec.jsonl", "mmspec.jsonl")
"""The file of questions within the folder that --suite names, the preferred one first."""
Text = Annotated[str, Length(1, 100_000)]


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A line: the questions of one conversation, all about one image."""

    id: Text
    image: Text
    turns: Annotated[list[Text], Length(1, 100)]
    topic: Text


def mmspec_samples(folder: Path, limit: int | None) -> Iterator[SuiteSample]:
    """The benchmark's conversations in order, at most `limit` of each topic.

    A sample's name is its topic and its own id.  Raises UsageError for a folder without the
    benchmark's file and for a malformed line.
    """
    file = next((folder / place for place in PLACES if (folder / place).is_file()), None)
    if file is None:
        raise UsageError(f"--suite {NAME}={folder}: there is no {' or '.join(PLACES)}")
    counts = Counter[str]()
    for number, line in enumerate(read_lines(file), start=1):
        if line.strip():
            one = parsed(_Conversation, line, f"{file}:{number}")
            counts[one.topic] += 1
            if limit is None or counts[one.topic] <= limit:
                image = file.parent / "images" / one.image
                questions = partial(_questions, image, one.turns)
                yield SuiteSample(f"{one.topic}/{one.id}", one.topic, questions)


def _questions(image: Path, turns: list[str]) -> tuple[Message, ...]:
    """The questions, the first with the image before it."""
    first, *later = turns
    asked = Message("user", (open_picture(image), first))
    return asked, *(Message("user", (text,)) for text in later)
