"""Datasets as their authors distribute them: JSON beside folders of images, given as NAME=DIR.

The formats follow the datasets' pages; no file of these datasets was opened by this project.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

from mmspec.ground.errors import UsageError
from mmspec.ground.json_file import read_lines, read_whole
from mmspec.ground.json_reader import MismatchError, parse_json, read_value
from mmspec.ground.limits import Length
from mmspec.prompt.conversation import IMAGE_MARKER, Message, interleaved
from mmspec.prompt.images import open_picture
from mmspec_bench.suite.samples import Read
from mmspec_world.prompts import DETAILED_CAPTION, STEPS

T = TypeVar("T")

FILE_BYTES = 100_000_000
"""The most bytes of a JSON file: COCO's longest captions have 67 MB."""
LETTERS = "ABCDEFGHIJ"
SPLIT = "test"
"""The part of ScienceQA that is asked."""


@dataclass(frozen=True, slots=True)
class _BenchQuestion:
    """A line of LLaVA-Bench's `questions.jsonl`."""

    image: str
    text: Annotated[str, Length(1, 100_000)]


@dataclass(frozen=True, slots=True)
class _Problem:
    """A value of ScienceQA's `problems.json`."""

    question: str
    choices: Annotated[list[str], Length(1, len(LETTERS))]
    split: str
    image: str | None = None
    hint: str | None = None

    @property
    def text(self) -> str:
        """Question, context and options in the order of ScienceQA's own prompts."""
        pairs = zip(LETTERS, self.choices, strict=False)
        options = " ".join(f"({letter}) {text}" for letter, text in pairs)
        hint = self.hint or "N/A"
        return f"Question: {self.question}\nContext: {hint}\nOptions: {options}\n{STEPS}"


@dataclass(frozen=True, slots=True)
class _Image:
    file_name: str


@dataclass(frozen=True, slots=True)
class _Captions:
    """COCO's `captions_*.json`, whose captions are not asked for."""

    images: list[_Image]


@dataclass(frozen=True, slots=True)
class Original:
    """A dataset's own files."""

    files: tuple[str, ...]
    """Patterns of its JSON file within its folder, the preferred one first."""
    reads: Callable[[Path], Iterator[Read]]
    """From the JSON file to its samples; raises MmspecError naming file and entry."""

    def file_in(self, folder: Path) -> Path | None:
        """The JSON file in `folder`, if it is there."""
        matches = (file for pattern in self.files for file in sorted(folder.glob(pattern)))
        return next(matches, None)


def _llava_bench(file: Path) -> Iterator[Read]:
    for number, line in enumerate(read_lines(file), start=1):
        if line.strip():
            asked = parsed(_BenchQuestion, line, f"{file}:{number}")
            yield partial(_questions, [file.parent / "images" / asked.image], asked.text)


def _scienceqa(file: Path) -> Iterator[Read]:
    problems = parsed(dict[str, _Problem], read_whole(file, FILE_BYTES), str(file))
    for key, problem in problems.items():
        if problem.split == SPLIT and problem.image:
            place = Path(SPLIT, key, problem.image)
            images = [file.parent / "images" / place, file.parent / place]
            yield partial(_questions, images, problem.text)


def _coco(file: Path) -> Iterator[Read]:
    captions = parsed(_Captions, read_whole(file, FILE_BYTES), str(file))
    root = file.parent.parent if file.parent.name == "annotations" else file.parent
    year = file.stem.removeprefix("captions_")
    for image in captions.images:
        images = [root / folder / image.file_name for folder in (year, f"images/{year}", ".")]
        yield partial(_questions, images, DETAILED_CAPTION)


ORIGINALS = {
    "llava-w": Original(("questions.jsonl",), _llava_bench),
    "scienceqa": Original(("problems.json",), _scienceqa),
    "coco": Original(
        ("annotations/captions_val*.json", "captions_val*.json", "captions_*.json"), _coco
    ),
}
"""LLaVA-Bench (In-the-Wild), ScienceQA's test questions with an image, COCO's images."""


def _questions(images: list[Path], text: str) -> tuple[Message, ...]:
    """A question about the first of `images` that exists."""
    if text.count(IMAGE_MARKER) > 1:
        raise UsageError(f"{images[0]}: its question has more than one {IMAGE_MARKER}")
    picture = open_picture(next((image for image in images if image.is_file()), images[0]))
    return (interleaved(text, [picture]),)


def parsed(kind: type[T], text: str, where: str) -> T:
    """The JSON `text` as `kind`; raises UsageError naming `where` for any other text."""
    try:
        return read_value(kind, parse_json(text))
    except MismatchError as error:
        raise UsageError(f"{where}: {error}") from error
    except ValueError as error:
        raise UsageError(f"{where} is not JSON: {error}") from error
