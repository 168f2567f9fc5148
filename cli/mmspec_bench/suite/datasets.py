"""The papers' datasets, read from `datasets.toml`, and the prompts for their rows.

Rows are the first of a split, in order, as in published measurements.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from mmspec.errors import UsageError
from mmspec.prompt.conversation import IMAGE_MARKER, interleaved
from mmspec_bench.suite.dataset_rows import Record
from mmspec_bench.suite.samples import FollowUp, Question
from mmspec_world.scenes.palette import LETTERS
from mmspec_world.tasks.prompts import REASONED, STEPS

PRESENT_OWNER = "lmms-lab-encoder"
"""Hub account that has the datasets since July 2026, formerly lmms-lab."""
DESCRIBE = "Describe this image in detail."


def reasoned(record: Record) -> str:
    """The question, preceded by the sentence with which the papers ask for reasoning."""
    return REASONED + record.text("question")


def verbatim(record: Record) -> str:
    """The dataset's own question."""
    return record.text("question")


def detailed_caption(_record: Record) -> str:
    """MMSpec's request for a caption; the dataset's own question asks for something else."""
    return DESCRIBE


def multiple_choice(record: Record) -> str:
    """A question with lettered choices and a request for a chain of thought."""
    pairs = zip(LETTERS, record.texts("choices"), strict=False)
    choices = " ".join(f"({letter}) {choice}" for letter, choice in pairs)
    hint = record.value("hint")
    context = f"Context: {hint}\n" if hint else ""
    return f"{context}Question: {record.text('question')}\nChoices: {choices}\n{STEPS}"


PROMPTS: dict[str, Callable[[Record], str]] = {
    prompt.__name__: prompt for prompt in (reasoned, verbatim, detailed_caption, multiple_choice)
}


@dataclass(frozen=True, slots=True)
class Dataset:
    """One dataset; `datasets.toml` explains the fields."""

    repository: str
    files: str
    prompt: str
    columns: tuple[str, ...] = ("question",)
    image_columns: int = 0
    filter: tuple[str, str] | None = None
    rows: int = 100
    follow_up: FollowUp | None = None

    @property
    def repositories(self) -> tuple[str, str]:
        """The dataset's repository on the hub now, and its former one."""
        return f"{PRESENT_OWNER}/{self.repository.partition('/')[2]}", self.repository

    @property
    def images(self) -> tuple[str, ...]:
        """The columns of images."""
        return tuple(f"image_{n}" for n in range(self.image_columns)) or ("image",)

    def questions(self, record: Record) -> tuple[Question, ...]:
        """The questions of a row; raises UsageError or ImageError naming row and column."""
        text = PROMPTS[self.prompt](record)
        first, *more = self.images
        columns = [first, *(column for column in more if record.has(column))]
        pictures = [record.picture(column) for column in columns]
        markers = text.count(IMAGE_MARKER)
        if markers not in (0, len(pictures)):
            raise UsageError(f"{record.where}: {markers} {IMAGE_MARKER} for {len(pictures)} images")
        return (Question(interleaved(text, pictures)),)


def _read() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("datasets.toml").read_text(encoding="utf-8"))


def _dataset(entry: dict[str, Any]) -> Dataset:
    lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
    return Dataset(**(entry | lists))


_TABLES = _read()
DATASETS = {name: _dataset(entry) for name, entry in _TABLES["datasets"].items()}
GROUPS: dict[str, tuple[str, ...]] = {
    name: tuple(datasets) for name, datasets in _TABLES["groups"].items()
}
"""The datasets in a paper's tables, by the name that --suite takes."""
