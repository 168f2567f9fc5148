"""The numbers behind the tables, unrounded, as CSV."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isnan
from typing import Any

from mmspec.bench.report.against import Compared, compared
from mmspec.bench.report.beside import compare
from mmspec.bench.report.faithful import differing
from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.published import Paper
from mmspec.bench.suite.rows import PLAIN
from mmspec.bench.suite.summary import Summary, summarise

Lines = Sequence[Mapping[str, Any]]


def sheets(run: Run, summaries: Sequence[Summary], papers: Sequence[Paper]) -> dict[str, str]:
    """By name of the file, its text; a sheet without lines is left out."""
    found: dict[str, Lines] = {
        "methods.csv": [_flat(each) for each in summaries],
        "tasks.csv": list(_by_task(run)),
        "differences.csv": [_difference(each) for each in compared(run)],
        "published.csv": [line for paper in papers for line in _published(run, paper)],
        "divergences.csv": list(_divergences(run)),
    }
    return {name: written(lines) for name, lines in found.items() if lines}


def written(lines: Lines) -> str:
    """CSV with a head of all keys; a line lacks those it does not have."""
    columns = dict.fromkeys(name for line in lines for name in line)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _safe(value) for name, value in line.items()} for line in lines)
    return text.getvalue()


def _safe(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@"))
    return f"'{value}" if formula else value


def _flat(each: Summary) -> dict[str, Any]:
    """A summary in which a list has a column for each place, and seconds one for each stage."""
    line: dict[str, Any] = {}
    for name, value in each.as_dict().items():
        match value:
            case list():
                line |= {f"{name}_{place}": one for place, one in enumerate(value, start=1)}
            case dict():
                line |= {f"{name}_{key}": one for key, one in value.items()}
            case _:
                line[name] = value
    return line


def _by_task(run: Run) -> Iterator[dict[str, Any]]:
    groups = grouped(run.rows, lambda row: (row.task, row.turn, row.images, row.method))
    for (task, turn, images, method), rows in groups.items():
        plain = groups.get((task, turn, images, PLAIN), [])
        place = {"task": task, "turn": turn, "images": images}
        yield place | {"method": method} | _flat(summarise(rows, plain, run.costs))


def _difference(each: Compared) -> dict[str, Any]:
    place = {"group": each.group, "method": each.method, "best": each.best}
    return place | {"block_efficiency": each.block_efficiency} | asdict(each.difference)


def _published(run: Run, paper: Paper) -> Iterator[dict[str, Any]]:
    origin = {"paper": paper.title, "target": paper.target, "draft": paper.draft}
    for table in paper.tables:
        for each in compare(run, paper, table):
            values = {"ours": each.ours, "published": each.published}
            yield {
                **origin,
                "hardware": paper.hardware,
                "table": each.table,
                "column": each.column,
                "label": each.label,
                "method": each.method,
                **{name: "" if isnan(value) else value for name, value in values.items()},
            }


def _divergences(run: Run) -> Iterator[dict[str, Any]]:
    for row, _ in differing(run):
        place = {"sample": row.sample, "turn": row.turn, "method": row.method}
        yield place | (row.divergence or {})
