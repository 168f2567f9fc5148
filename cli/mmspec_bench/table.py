"""Tables of text, and of CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str
    """What the numbers mean, in one or two sentences."""


def number(value: float | None) -> str:
    """A number with two digits; empty for None."""
    return "" if value is None else f"{value:.2f}"


def positive(value: float) -> str:
    """A number with two digits; empty for 0, which means not measured."""
    return number(value or None)


def percent(value: float | None, form: str = ".1%") -> str:
    """A share in per cent, with its sign by "+.1%"; empty for None."""
    return "" if value is None else f"{value:{form}}".replace("%", " %")


def csv_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """CSV with one column per key in any line; a missing key is an empty cell."""
    flat = [_flat(line) for line in lines]
    text = io.StringIO()
    columns = dict.fromkeys(name for line in flat for name in line)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Cells by column; each entry of a list has a column of its own."""
    line: dict[str, Any] = {}
    for name, value in values.items():
        match value:
            case list():
                line |= {f"{name}_{i}": entry for i, entry in enumerate(value, start=1)}
            case str() if value.startswith(("=", "+", "-", "@")):
                line[name] = f"'{value}"  # spreadsheets would read it as a formula
            case _:
                line[name] = value
    return line
