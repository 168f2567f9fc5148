"""Files of conversations in LLaVA's and ShareGPT's formats: those to train on, and why not others.

Odd conversations are repaired as LLaVA's, EAGLE's and MSD's data preparation does; those on which
that code stops are left out.
"""

import codecs
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mmspec.ground import errors
from mmspec.ground.input_files import open_file, read_errors
from mmspec.prompt.conversation import IMAGE_MARKER
from mmspec_world.split import Split

FORMAT = (
    '{"image": "a.jpg", "conversations": [{"from": "human", "value": "<image>\\nWhat is this?"}, '
    '{"from": "gpt", "value": "A cat."}]}'
)
"""An example conversation. `image`, or `images`, may also be a list, null, or missing."""
HELD_OUT_ONE_IN = 20
"""One of this many conversations of a file is held out from training."""
UNUSABLE_SHARE = 0.5
"""Largest share of a file's conversations that may be unusable; more is an error."""


class UnusableError(ValueError):
    """A conversation that cannot be trained on."""


class _Turn(msgspec.Struct):
    role: str = msgspec.field(name="from")
    value: str


class _Conversation(msgspec.Struct):
    conversations: list[_Turn]
    image: str | list[str] | None = None
    images: str | list[str] | None = None
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


class Index(NamedTuple):
    """The conversations of a file by number: the line's or the element's, from 1."""

    usable: dict[int, Instructions]
    problems: dict[int, str]
    """Why each other conversation cannot be used."""


@dataclass(frozen=True)
class ConversationFile:
    """Conversations in LLaVA's or ShareGPT's format: JSON lines, or one JSON array.

    Image paths are relative to `images`, or to its parent if they begin with its name.
    """

    path: Path
    images: Path

    @cached_property
    def index(self) -> Index:
        """Read the whole file once.  Raises UsageError if it cannot be read."""
        with read_errors(self.path, errors.UsageError), open_file(self.path) as file:
            content = file.read().removeprefix(codecs.BOM_UTF8)
        is_array = content.lstrip().startswith(b"[")
        try:
            values = _decode(content) if is_array else content.split(b"\n")
        except UnusableError as problem:
            raise errors.UsageError(f"{self.path}: {problem}") from problem
        index = Index({}, {})
        for number, value in enumerate(values, start=1):
            if not is_array and not value.strip():
                continue
            try:
                instructions = read_instructions(value if is_array else _decode(value))
                for image in map(self.find, instructions.images):
                    if not image.is_file():
                        raise UnusableError(f"there is no image {image} (--images)")
                index.usable[number] = instructions
            except UnusableError as problem:
                index.problems[number] = str(problem)
        return index

    def find(self, image: str) -> Path:
        """Return the path of an image as the file gives it."""
        first = Path(image).parts[:1]
        under_parent = first == (self.images.name,) and not (self.images / image).is_file()
        return (self.images.parent if under_parent else self.images) / image

    def numbers(self, split: Split) -> list[int]:
        """Return the numbers of a split's conversations: one in 20 is held out."""
        is_held_out = split == "held-out"
        return [n for n in self.index.usable if (n % HELD_OUT_ONE_IN == 0) == is_held_out]

    def check(self) -> str:
        """Return a line on the conversations that are left out; empty if none is.

        Raises UsageError if most conversations are unusable, or too few are left.
        """
        usable, unusable = len(self.index.usable), len(self.index.problems)
        number, reason = next(iter(self.index.problems.items()), (0, ""))
        of_all = f"{unusable} of {usable + unusable} conversations"
        if unusable > UNUSABLE_SHARE * (usable + unusable):
            raise errors.UsageError(
                f"{self.path}:{number}: {reason}; {of_all} cannot be used: one is like {FORMAT}"
            )
        if usable < HELD_OUT_ONE_IN:
            raise errors.UsageError(
                f"{self.path} has {usable} usable conversation{'' if usable == 1 else 's'}: give "
                f"at least {HELD_OUT_ONE_IN}, of which one in {HELD_OUT_ONE_IN} is held out"
            )
        line = f"{self.path.name}: {of_all} are left out, first {number}: {reason}"
        return line if unusable else ""


def read_instructions(value: Any) -> Instructions:
    """Read a conversation from a JSON value.  Raises UnusableError."""
    try:
        conversation = msgspec.convert(value, _Conversation)
        images = conversation.images or conversation.image or []
        images = [images] if isinstance(images, str) else images
        "".join([*(turn.value for turn in conversation.conversations), *images]).encode()
    except msgspec.ValidationError as error:
        raise UnusableError(str(error)) from error
    except UnicodeEncodeError as error:  # half of a surrogate pair, which no tokenizer can read
        raise UnusableError(f"not text in UTF-8: {error.reason}") from error
    if conversation.video or conversation.videos:
        raise UnusableError("training reads pictures, no videos")
    if conversation.image and conversation.images:
        raise UnusableError("both `image` and `images` are given")
    texts = _alternate(conversation.conversations)
    questions, images = _match_images(texts[::2], images)
    return Instructions(tuple(zip(questions, texts[1::2], strict=True)), tuple(images))


def _alternate(turns: list[_Turn]) -> list[str]:
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


def _match_images(questions: list[str], images: list[str]) -> tuple[list[str], list[str]]:
    """The questions with one marker for each image, and the images that they show.

    LLaVA drops an image that no question shows, and shows a single image once in a question
    whatever the number of its markers.
    """
    markers = [text.count(IMAGE_MARKER) for text in questions]
    if not images or not any(markers):
        return questions, []
    if len(images) == 1 and max(markers) > 1:
        questions = [_once(text) for text in questions]
    count = sum(text.count(IMAGE_MARKER) for text in questions)
    if count != len(images):
        raise UnusableError(f"the questions have {count} {IMAGE_MARKER} for {len(images)} images")
    return questions, images


def _once(question: str) -> str:
    """The question with one marker in front in place of all its markers."""
    if IMAGE_MARKER not in question:
        return question
    return f"{IMAGE_MARKER}\n{question.replace(IMAGE_MARKER, '').strip()}"


def _decode(content: bytes) -> Any:
    """Return the value of JSON text, which may contain control characters in strings."""
    try:
        return json.loads(content.decode(), strict=False)
    except UnicodeDecodeError as error:
        raise UnusableError(f"not text in UTF-8: {error.reason}") from error
    except (ValueError, RecursionError) as error:  # also too many digits, too many brackets
        raise UnusableError(f"not JSON: {error}") from error
