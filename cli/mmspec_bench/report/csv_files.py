"""Text of CSV files."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any


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
    """Cells by column: one per position of a list."""
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
