"""The datasets of the IbED and TABED papers, read from `datasets.toml`.

Rows are the first of a split, in order, as in published measurements.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from mmspec.ground.errors import UsageError
from mmspec.prompt.conversation import IMAGE_MARKER, interleaved
from mmspec_bench.suite.dataset_rows import Record
from mmspec_bench.suite.samples import FollowUp, Question
from mmspec_world.prompts import REASONED

PRESENT_OWNER = "lmms-lab-encoder"
"""Hub account that has the datasets since July 2026."""
FORMER_OWNER = "lmms-lab/"


@dataclass(frozen=True, slots=True)
class Dataset:
    """One dataset; `datasets.toml` explains the fields."""

    repository: str
    files: str
    reasoned: bool = False
    image_columns: int = 0
    filter: tuple[str, str] | None = None
    rows: int = 100
    follow_up: FollowUp | None = None
    template: str = "{question}"
    after: str | None = None

    @property
    def repositories(self) -> tuple[str, ...]:
        """The dataset's repository on the hub now, and its former one if it moved."""
        if not self.repository.startswith(FORMER_OWNER):
            return (self.repository,)
        return f"{PRESENT_OWNER}/{self.repository.partition('/')[2]}", self.repository

    @property
    def images(self) -> tuple[str, ...]:
        """The names of the columns that hold images."""
        if self.after:
            return ()
        return tuple(f"image_{n}" for n in range(self.image_columns)) or ("image",)

    def questions(self, record: Record) -> tuple[Question, ...]:
        """The questions of a row; raises UsageError or ImageError naming row and column."""
        asked = record.text("question")
        capital = asked[:1].upper() + asked[1:]
        text = self.template.replace("{question}", asked).replace("{Question}", capital)
        text = (REASONED if self.reasoned else "") + text
        columns = [*self.images[:1], *(column for column in self.images[1:] if record.has(column))]
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
