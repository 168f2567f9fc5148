"""Writes the unrounded numbers of the tables as CSV."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isnan
from typing import Any

from mmspec_bench.report.answer_checks import diverging
from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.report.published import Paper
from mmspec_bench.report.published_comparison import compare
from mmspec_bench.report.vs_best_view import comparisons
from mmspec_bench.suite.rows import PLAIN
from mmspec_bench.suite.summary import Summary, summarise

Lines = Sequence[Mapping[str, Any]]


def csv_files(
    run: BenchRun, summaries: Sequence[Summary], papers: Sequence[Paper]
) -> dict[str, str]:
    """The text of each file by its name, without empty files."""
    lines: dict[str, Lines] = {
        "methods.csv": [_flat(summary.as_dict()) for summary in summaries],
        "tasks.csv": list(_by_task(run)),
        "differences.csv": [_flat(asdict(comparison)) for comparison in comparisons(run)],
        "published.csv": list(_published(run, papers)),
        "divergences.csv": [
            {"sample": row.sample, "turn": row.turn, "method": row.method} | (row.divergence or {})
            for row, _ in diverging(run)
        ],
    }
    return {name: csv_text(some) for name, some in lines.items() if some}


def csv_text(lines: Lines) -> str:
    """CSV with one column per key in any line; a missing key is an empty cell."""
    columns = dict.fromkeys(name for line in lines for name in line)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in line.items()} for line in lines)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A cell that spreadsheets do not read as a formula; empty for nan."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@")):
        return f"'{value}"
    return "" if isinstance(value, float) and isnan(value) else value


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


def _by_task(run: BenchRun) -> Iterator[dict[str, Any]]:
    groups = grouped(run.rows, lambda row: (row.task, row.turn, row.images, row.method))
    for (task, turn, images, method), rows in groups.items():
        plain = groups.get((task, turn, images, PLAIN), [])
        summary = summarise(rows, plain).as_dict()
        yield {"task": task, "turn": turn, "images": images, "method": method} | _flat(summary)


def _published(run: BenchRun, papers: Sequence[Paper]) -> Iterator[dict[str, Any]]:
    for paper in papers:
        origin = {"paper": paper.title, "target": paper.target, "draft": paper.draft}
        for table in paper.tables:
            for comparison in compare(run, paper, table):
                yield origin | {"hardware": paper.hardware} | asdict(comparison)
