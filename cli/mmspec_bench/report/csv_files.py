"""Writes the unrounded measures as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.suite.metrics import Summary, summarise
from mmspec_bench.suite.rows import PLAIN


def csv_files(run: BenchRun, summaries: Sequence[Summary]) -> dict[str, str]:
    """The text of each file by name: measures by method; by task, turn, images and method."""
    groups = grouped(run.rows, lambda row: (row.task, row.turn, row.images, row.method))
    by_task = []
    for (task, turn, images, method), rows in groups.items():
        place = {"task": task, "turn": turn, "images": images, "method": method}
        by_task.append(place | summarise(rows, groups.get((task, turn, images, PLAIN), [])))
    return {"methods.csv": csv_text(summaries), "tasks.csv": csv_text(by_task)}


def csv_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """CSV with one column per key in any line; a missing key is an empty cell."""
    flat = [_flat(line) for line in lines]
    columns = dict.fromkeys(name for line in flat for name in line)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in line.items()} for line in flat)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A cell that spreadsheets do not read as a formula."""
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@"))
    return f"'{value}" if formula else value


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values as columns: one per position of a list, one per key of a dictionary."""
    line: dict[str, Any] = {}
    for name, value in values.items():
        match value:
            case list():
                line |= {f"{name}_{i}": entry for i, entry in enumerate(value, start=1)}
            case dict():
                line |= {f"{name}_{key}": entry for key, entry in value.items()}
            case _:
                line[name] = value
    return line
