"""The datasets of the IbED and TABED papers: parquet files as on the hub, see `datasets.toml`.

Rows are the first of a split, in order, as in published measurements. Images are decoded when they
are needed, so that a broken one affects only its row.
"""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec

from mmspec.ground.errors import BackendError, ImageError, UsageError, missing_package
from mmspec.prompt.conversation import IMAGE_MARKER, Message, interleave
from mmspec.prompt.images import Picture, decode_picture, open_picture
from mmspec_world.wording import prompts

FollowUp = Literal["next", "story", "caption", "summary"]
"""The second question of a sample; "next" is the next sample's question (TABED)."""
Read = Callable[[], tuple[Message, ...]]
"""Reads the questions of a sample, one for each turn; raises MmspecError if it is broken."""
BATCH = 16
"""Number of parquet rows read at a time; images stay in memory, as they are in the file."""


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
    def images(self) -> tuple[str, ...]:
        """The names of the columns that hold images."""
        if self.after:
            return ()
        return tuple(f"image_{n}" for n in range(self.image_columns)) or ("image",)

    def reads(self, tables: Sequence[Path], limit: int | None) -> list[Read]:
        """The samples in the first rows of tables; raises UsageError for what is no such table."""
        rows = (row for table in tables for row in self._rows(table))
        return list(islice(rows, min(self.rows, limit or self.rows)))

    def _rows(self, file: Path) -> Iterator[Read]:
        field, table = _open(file)
        names = table.schema.names
        for column in (*(self.filter or ())[:1], "question", *self.images[:1]):
            if column not in names:
                there = ", ".join(names)
                raise UsageError(f"{file}: no column {column!r} (there are: {there})")
        batches = table.to_batches(
            columns=[column for column in ("question", *self.images) if column in names],
            filter=field(self.filter[0]) == self.filter[1] if self.filter else None,
            batch_size=BATCH,
            batch_readahead=1,
        )
        rows = (row for batch in batches for row in batch.to_pylist())
        for number, row in enumerate(rows):
            yield partial(self._questions, row, f"{file.name} row {number}", file.parent)

    def _questions(self, row: dict[str, Any], where: str, folder: Path) -> tuple[Message, ...]:
        """The question of a row; raises UsageError or ImageError naming row and column."""
        question = row["question"]
        if not isinstance(question, str) or not question.strip():
            raise UsageError(f"{where}: question is {question!r:.60}, but must be a text")
        capital = question[:1].upper() + question[1:]
        text = self.template.replace("{question}", question).replace("{Question}", capital)
        text = (prompts("reasoned")[0] if self.reasoned else "") + text
        columns = [*self.images[:1], *(c for c in self.images[1:] if row.get(c) is not None)]
        pictures = [_picture(row[column], f"{where}: {column}", folder) for column in columns]
        markers = text.count(IMAGE_MARKER)
        if markers not in (0, len(pictures)):
            raise UsageError(f"{where}: {markers} {IMAGE_MARKER} for {len(pictures)} images")
        return (interleave(text, pictures),)


def _open(file: Path) -> tuple[Any, Any]:
    """pyarrow's constructor of filters, and the table in `file`."""
    try:
        from pyarrow import ArrowException, dataset
    except ModuleNotFoundError as error:
        raise missing_package("reading parquet", error, "bench") from error
    except ImportError as error:
        raise BackendError(
            f"reading parquet needs pyarrow, which cannot be imported ({error}): "
            "run pip install --force-reinstall pyarrow"
        ) from error
    try:
        return dataset.field, dataset.dataset(file, format="parquet")
    except (ArrowException, OSError) as error:
        raise UsageError(f"{file}: not a parquet file ({error})") from error


def _picture(value: Any, where: str, folder: Path) -> Picture:
    """The image in a cell: bytes, or a path relative to `folder`."""
    match value:
        case {"bytes": bytes(content)}:
            return decode_picture(content, where)
        case {"path": str(path)} if path:
            return open_picture(folder / path)
    raise ImageError(f"{where} holds no image")


_TABLES = tomllib.loads(files(__package__).joinpath("datasets.toml").read_text(encoding="utf-8"))
DATASETS = msgspec.convert(_TABLES["datasets"], dict[str, Dataset])
GROUPS: dict[str, list[str]] = _TABLES["groups"]
"""The datasets in a paper's tables, by the name that --suite takes."""
