"""The CSV files of a report: unrounded measures."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from mmspec_bench.report.bench_run import BenchRun, grouped
from mmspec_bench.suite.metrics import Summary, summarise


def csv_files(run: BenchRun, lines: Sequence[Summary]) -> dict[str, str]:
    """Unrounded measures by file: by task and method; by task, turn, images and method.

    lines: each method's measures, overall and by task.
    """
    groups = grouped(run.rows, lambda row: (row.task, row.turn, row.images, row.method))
    by_turn = []
    for (task, turn, images, method), rows in groups.items():
        place = {"task": task, "turn": turn, "images": images, "method": method}
        by_turn.append(place | summarise(rows, run.timed_plain))
    return {"methods.csv": csv_text(lines), "tasks.csv": csv_text(by_turn)}


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
