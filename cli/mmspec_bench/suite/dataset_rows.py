"""Reads rows of datasets on this machine: parquet, as on the hub.

Images are decoded when they are needed, so that a broken one affects only its row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mmspec.ground.errors import ImageError, UsageError
from mmspec.prompt.images import Picture, decode_picture, open_picture

BATCH = 16
"""Number of parquet rows in memory at a time; an image may take megabytes."""


@dataclass(frozen=True, slots=True)
class Record:
    """One row; its methods raise UsageError or ImageError naming row, column and value."""

    where: str
    folder: Path
    """Folder to which paths of images are relative."""
    values: dict[str, Any]
    columns: tuple[str, ...]
    """All columns of the table, even those that were not read."""

    def value(self, column: str) -> Any:
        """The value in `column` of this row, which may be None."""
        if column not in self.values:
            names = ", ".join(self.columns)
            raise UsageError(f"{self.where}: no column {column!r} (there are: {names})")
        return self.values[column]

    def has(self, column: str) -> bool:
        """True if `column` exists and is not empty in this row."""
        return self.values.get(column) is not None

    def text(self, column: str) -> str:
        """The text in a column; must not be empty."""
        value = self.value(column)
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{self.where}: {column} is {value!r:.60}, but must be a text")
        return value

    def picture(self, column: str) -> Picture:
        """The image in a column: bytes, or a path relative to the table."""
        match self.value(column):
            case {"bytes": bytes(content)}:
                return decode_picture(content, f"{self.where}: {column}")
            case {"path": str(path)} if path:
                return open_picture(self.folder / path)
        raise ImageError(f"{self.where}: {column} holds no image")


def read_table(
    files: Sequence[Path],
    columns: Sequence[str],
    count: int | None = None,
    where: tuple[str, str] | None = None,
) -> list[Record]:
    """The first `count` rows, or all, of tables that continue one another.

    columns: those to read.  where: a column and the value that selects rows.  Raises UsageError for
    a file that is not a table, or that lacks the column of `where`.
    """
    rows = (row for file in files for row in _rows(file, columns, where))
    return list(islice(rows, count))


def _rows(file: Path, columns: Sequence[str], where: tuple[str, str] | None) -> Iterator[Record]:
    """Yield the rows of a parquet file, read in batches; rows that `where` excludes are skipped."""
    field, table = _open(file)
    names = tuple(table.schema.names)
    if where and where[0] not in names:
        raise UsageError(f"{file}: no column {where[0]!r} (there are: {', '.join(names)})")
    batches = table.to_batches(
        columns=[column for column in columns if column in names],
        filter=field(where[0]) == where[1] if where else None,
        batch_size=BATCH,
        batch_readahead=1,
    )
    rows = (row for batch in batches for row in batch.to_pylist())
    for number, row in enumerate(rows):
        yield Record(f"{file.name} row {number}", file.parent, row, names)


def _open(file: Path) -> tuple[Any, Any]:
    """pyarrow's constructor of filters, and the table in `file`."""
    try:
        from pyarrow import ArrowException, dataset  # type: ignore[import-untyped]  # no stubs
    except ImportError as error:
        raise UsageError(
            'reading parquet needs pyarrow: run pip install "mmspec[bench]"'
        ) from error
    try:
        return dataset.field, dataset.dataset(file, format="parquet")
    except (ArrowException, OSError) as error:
        raise UsageError(f"{file}: not a parquet file ({error})") from error
