"""Reader of one conversation in the format of LLaVA's and ShareGPT's files.

Odd conversations are repaired as LLaVA's, EAGLE's and MSD's data preparation does; those on which
that code stops are refused.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from mmspec.prompt.conversation import IMAGE_MARKER

FORMAT = (
    '{"image": "a.jpg", "conversations": [{"from": "human", "value": "<image>\\nWhat is this?"}, '
    '{"from": "gpt", "value": "A cat."}]}'
)
"""An example conversation. `image`, or `images`, may also be a list, null, or missing."""


class UnusableError(ValueError):
    """A conversation that cannot be trained on."""


class _Turn(msgspec.Struct):
    role: str = msgspec.field(name="from")
    value: str


class _Conversation(msgspec.Struct):
    conversations: list[_Turn]
    image: str | list[str] | None = msgspec.field(default_factory=list)
    images: str | list[str] | None = msgspec.field(default_factory=list)
    video: Any = None
    videos: Any = None


@dataclass(frozen=True, slots=True)
class Instructions:
    """The turns and images of one conversation."""

    turns: tuple[tuple[str, str], ...]
    """The question and the answer of each turn.

    Questions have one IMAGE_MARKER per image; without images a marker is text that somebody typed.
    """
    images: tuple[str, ...]
    """Image paths as the file gives them."""


def read_instructions(value: Any) -> Instructions:
    """Read a conversation from a JSON value.  Raises UnusableError."""
    try:
        instructions = _read(value)
        "".join(chain(*instructions.turns, instructions.images)).encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, which no tokenizer can read
        raise UnusableError(f"not text in UTF-8: {error.reason}") from error
    return instructions


def _read(value: Any) -> Instructions:
    try:
        read = msgspec.convert(value, _Conversation)
    except msgspec.ValidationError as error:
        raise UnusableError(str(error)) from error
    if read.video or read.videos:
        raise UnusableError("training reads pictures, no videos")
    if read.image and read.images:
        raise UnusableError("both `image` and `images` are given")
    texts, images = _alternating(read.conversations), read.images or read.image
    paths = [images] if isinstance(images, str) and images else list(images or ())
    questions, paths = _shown(texts[::2], paths)
    return Instructions(tuple(zip(questions, texts[1::2], strict=True)), tuple(paths))


def _alternating(turns: list[_Turn]) -> list[str]:
    """Questions and answers in turn, without a leading answer and a trailing question."""
    strange = [turn.role for turn in turns if turn.role not in ("human", "gpt")]
    if strange:
        raise UnusableError(f"a turn is from {strange[0]}, not from human or gpt")
    if turns and turns[0].role == "gpt":
        turns = turns[1:]
    if len(turns) % 2:
        turns = turns[:-1]
    if [turn.role for turn in turns] != ["human", "gpt"] * (len(turns) // 2):
        raise UnusableError("two turns in a row are of one role")
    if not turns:
        raise UnusableError("there is no question with an answer")
    return [turn.value for turn in turns]


def _shown(questions: list[str], images: list[str]) -> tuple[list[str], list[str]]:
    """The questions with one marker for each image, and the images that they show.

    LLaVA drops an image that no question shows, and shows a single image once in a question
    whatever the number of its markers.
    """
    markers = [text.count(IMAGE_MARKER) for text in questions]
    if not images or not any(markers):
        return questions, []
    if len(images) == 1 and max(markers) > 1:
        questions = [_once(text) for text in questions]
    shown = sum(text.count(IMAGE_MARKER) for text in questions)
    if shown != len(images):
        raise UnusableError(f"the questions have {shown} {IMAGE_MARKER} for {len(images)} images")
    return questions, images


def _once(question: str) -> str:
    """The question with one marker in front in place of all its markers."""
    if IMAGE_MARKER not in question:
        return question
    return f"{IMAGE_MARKER}\n{question.replace(IMAGE_MARKER, '').strip()}"
