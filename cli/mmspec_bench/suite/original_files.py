"""Datasets as their authors distribute them: JSON beside folders of images, given as NAME=DIR.

The formats follow the datasets' pages; of them this project has opened MMSpec's files alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from mmspec.ground.errors import UsageError
from mmspec.ground.json_file import Length, read_lines, read_whole, typed, typed_lines
from mmspec.prompt.conversation import IMAGE_MARKER, Message, interleaved
from mmspec.prompt.images import open_picture
from mmspec_bench.suite.samples import SuiteSample
from mmspec_world.wording import prompts

FILE_BYTES = 100_000_000
"""The most bytes of a JSON file: COCO's longest captions have 67 MB."""
LETTERS = "ABCDEFGHIJ"
Text = Annotated[str, Length(1, 100_000)]
SPLIT = "test"
"""The part of ScienceQA that is asked."""


@dataclass(frozen=True, slots=True)
class _BenchQuestion:
    """A line of LLaVA-Bench's `questions.jsonl`."""

    image: str
    text: Text


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
        hint, request = self.hint or "N/A", prompts("steps")[0]
        return f"Question: {self.question}\nContext: {hint}\nOptions: {options}\n{request}"


@dataclass(frozen=True, slots=True)
class _Image:
    file_name: str


@dataclass(frozen=True, slots=True)
class _Captions:
    """COCO's `captions_*.json`, whose captions are not asked for."""

    images: list[_Image]


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A line of MMSpec's `mmspec.jsonl` (arXiv 2603.14989), all about one image."""

    id: Text
    image: Text
    turns: Annotated[list[Text], Length(1, 100)]
    topic: Text


@dataclass(frozen=True, slots=True)
class Original:
    """A dataset's own files."""

    files: tuple[str, ...]
    """Patterns of its JSON file within its folder, the preferred one first."""
    samples: Callable[[Path], Iterator[SuiteSample]]
    """From the JSON file to its samples; raises MmspecError naming file and entry."""
    rows: int | None = 100
    """Samples of each task, if --limit does not say how many; None for all."""

    def file_in(self, folder: Path) -> Path | None:
        """The JSON file in `folder`, if it is there."""
        matches = (file for pattern in self.files for file in sorted(folder.glob(pattern)))
        return next(matches, None)


def _mmspec(file: Path) -> Iterator[SuiteSample]:
    """MMSpec's conversations; tasks are its topics, and a name has its own id."""
    for _, one in typed_lines(_Conversation, read_lines(file), file):
        questions = partial(_questions, [file.parent / "images" / one.image], *one.turns)
        yield SuiteSample(f"{one.topic}/{one.id}", one.topic, questions)


def _llava_bench(file: Path) -> Iterator[SuiteSample]:
    for number, (_, asked) in enumerate(typed_lines(_BenchQuestion, read_lines(file), file)):
        image = file.parent / "images" / asked.image
        yield _single("llava-w", number, [image], asked.text)


def _scienceqa(file: Path) -> Iterator[SuiteSample]:
    problems = typed(dict[str, _Problem], read_whole(file, FILE_BYTES), str(file))
    asked = [(key, one) for key, one in problems.items() if one.split == SPLIT and one.image]
    for number, (key, problem) in enumerate(asked):
        place = Path(SPLIT, key, problem.image or "")
        images = [file.parent / "images" / place, file.parent / place]
        yield _single("scienceqa", number, images, problem.text)


def _coco(file: Path) -> Iterator[SuiteSample]:
    captions = typed(_Captions, read_whole(file, FILE_BYTES), str(file))
    root = file.parent.parent if file.parent.name == "annotations" else file.parent
    year = file.stem.removeprefix("captions_")
    for number, image in enumerate(captions.images):
        images = [root / folder / image.file_name for folder in (year, f"images/{year}", ".")]
        yield _single("coco", number, images, prompts("detailed_caption")[0])


ORIGINALS = {
    "mmspec": Original(("test/mmspec.jsonl", "mmspec.jsonl"), _mmspec, rows=None),
    "llava-w": Original(("questions.jsonl",), _llava_bench),
    "scienceqa": Original(("problems.json",), _scienceqa),
    "coco": Original(
        ("annotations/captions_val*.json", "captions_val*.json", "captions_*.json"), _coco
    ),
}
"""MMSpec, LLaVA-Bench (In-the-Wild), ScienceQA's test questions with an image, COCO's images."""


def _single(task: str, number: int, images: list[Path], text: str) -> SuiteSample:
    return SuiteSample(f"{task}/{number}", task, partial(_questions, images, text))


def _questions(images: list[Path], text: str, *later: str) -> tuple[Message, ...]:
    """A question about the first of `images` that exists, and those after it."""
    if text.count(IMAGE_MARKER) > 1:
        raise UsageError(f"{images[0]}: its question has more than one {IMAGE_MARKER}")
    picture = open_picture(next((image for image in images if image.is_file()), images[0]))
    return interleaved(text, [picture]), *(Message("user", (each,)) for each in later)
