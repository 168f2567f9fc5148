"""Rows of datasets on this machine: parquet as the hub stores it, or JSON lines.

Nothing is decoded before a sample's turn comes, so a broken picture breaks one row.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mmspec.errors import ImageError, UsageError
from mmspec.images import Picture, decode_picture, open_picture
from mmspec.jsonfile import read_lines


@dataclass(frozen=True, slots=True)
class Record:
    """One row.  Readers raise UsageError or ImageError naming the row, the column and the value."""

    where: str
    folder: Path
    """What the paths of images are relative to."""
    values: dict[str, Any]
    problem: str = ""
    """Why there are no values."""
    columns: tuple[str, ...] = ()
    """All columns of a table of which only some were read."""

    def value(self, column: str) -> Any:
        """What stands in a column, None among it."""
        if self.problem:
            raise UsageError(f"{self.where}: {self.problem}")
        if column not in self.values:
            there = ", ".join(self.columns or self.values) or "none"
            raise UsageError(f"{self.where}: no column {column!r} (there are: {there})")
        return self.values[column]

    def has(self, column: str) -> bool:
        """Whether a column is there and not empty."""
        return self.values.get(column) is not None

    def text(self, column: str) -> str:
        """A text that is not empty."""
        value = self.value(column)
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{self.where}: {column} is {value!r:.60}, but must be a text")
        return value

    def texts(self, column: str) -> list[str]:
        """A list of texts."""
        value = self.value(column)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UsageError(
                f"{self.where}: {column} is {value!r:.60}, but must be a list of texts"
            )
        return value

    def picture(self, column: str) -> Picture:
        """An image: a file beside the table, or bytes inside it."""
        match self.value(column):
            case str(path) if path:
                return open_picture(self.folder / path)
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
    """The first `count` rows, or all, in order, of tables that continue one another.

    columns: those to read of parquet.  where: a column and the value that chosen rows have in it.
    Raises UsageError for a file that is no table, or that lacks that column.
    """
    rows = (row for file in files for row in _rows(file, columns, where))
    return list(islice(rows, count))


def _rows(file: Path, columns: Sequence[str], where: tuple[str, str] | None) -> Iterator[Record]:
    if file.suffix == ".parquet":
        return _parquet(file, columns, where)
    return _json_lines(file, where)


def _json_lines(file: Path, where: tuple[str, str] | None) -> Iterator[Record]:
    for number, line in enumerate(read_lines(file), start=1):
        record = _record(line, f"{file.name}:{number}", file.parent)
        if line.strip() and (where is None or record.problem or _matches(record, where)):
            yield record


def _matches(record: Record, where: tuple[str, str]) -> bool:
    return bool(record.value(where[0]) == where[1])


def _record(line: str, where: str, folder: Path) -> Record:
    try:
        values = json.loads(line or "{}")
    except (ValueError, RecursionError) as error:
        return Record(where, folder, {}, f"not JSON ({error})")
    if not isinstance(values, dict):
        return Record(where, folder, {}, f"a JSON object is needed, not {line[:40]}")
    return Record(where, folder, values)


def _parquet(file: Path, columns: Sequence[str], where: tuple[str, str] | None) -> Iterator[Record]:
    """Read row group by row group, and only those that hold a chosen row."""
    opened = _opened(file)
    names = tuple(opened.schema_arrow.names)
    present = [column for column in columns if column in names]
    chosen = _chosen(opened, file, where)
    start = 0
    for group in range(opened.num_row_groups):
        end = start + opened.metadata.row_group(group).num_rows
        inside = [number - start for number in chosen if start <= number < end]
        if inside:
            table = opened.read_row_group(group, columns=present).take(inside)
            for number, values in zip(inside, table.to_pylist(), strict=True):
                where_it_is = f"{file.name} row {start + number}"
                yield Record(where_it_is, file.parent, values, columns=names)
        start = end


def _opened(file: Path) -> Any:
    try:
        from pyarrow import (  # type: ignore[import-untyped]  # it has no stubs
            ArrowException,
            parquet,
        )
    except ImportError as error:
        raise UsageError(
            'reading parquet needs pyarrow: run pip install "mmspec[bench]"'
        ) from error
    try:
        return parquet.ParquetFile(file)
    except (ArrowException, OSError) as error:
        raise UsageError(f"{file}: not a parquet file ({error})") from error


def _chosen(opened: Any, file: Path, where: tuple[str, str] | None) -> Sequence[int]:
    """The numbers of the chosen rows; of the other columns nothing is read."""
    if where is None:
        return range(opened.metadata.num_rows)
    column, wanted = where
    if column not in opened.schema_arrow.names:
        there = ", ".join(opened.schema_arrow.names)
        raise UsageError(f"{file}: no column {column!r} (there are: {there})")
    values = opened.read(columns=[column]).column(column).to_pylist()
    return [number for number, value in enumerate(values) if value == wanted]
