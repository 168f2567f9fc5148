"""Composes a report and writes its files."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmspec.ground.output_files import replace_text
from mmspec_bench.report import tables
from mmspec_bench.report.merge import ALL, BenchRun, grouped
from mmspec_bench.suite.metrics import Summary, summarise
from mmspec_bench.table import Table, count_of, escaped

REPORT = "report.md"


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report, and its files."""

    summaries: list[Summary]
    remarks: list[str]
    """What was run, and what disturbed it."""
    tables: list[Table]
    files: list[Path]


def write(run: BenchRun, folder: Path) -> Report:
    """Write Markdown and CSV into a folder."""
    lines = run.task_summaries
    summaries = [line for line in lines if line["task"] == ALL]
    remarks = [_subject(run), *filter(None, [run.problem])]
    every = report_tables(run, lines)
    blocks = ["# Benchmark report", *map(escaped, remarks), *(each.markdown() for each in every)]
    texts = {REPORT: "\n\n".join(blocks) + "\n", **csv_files(run, lines)}
    for name, text in texts.items():
        replace_text(folder / name, text)
    return Report(summaries, remarks, every, [folder / name for name in texts])


def _subject(run: BenchRun) -> str:
    questions = count_of(len({row.key for row in run.rows}), "question")
    tasks, methods = count_of(len(run.tasks), "task"), count_of(len(run.methods), "method")
    missing = ", ".join(run.missing_shards)
    absent = f" Not all of the run: no shard {missing}." if missing else ""
    repeated = " The target repeats given answers: no seconds are shown." if run.is_replay else ""
    return f"{tables.title(run)}: {questions} of {tasks}, {methods}.{repeated}{absent}"


def report_tables(run: BenchRun, lines: Sequence[Summary]) -> list[Table]:
    """All tables of a report that have rows; lines: each method's measures, overall and by task."""
    summaries = [line for line in lines if line["task"] == ALL]
    every = [
        tables.drafting(summaries),
        tables.by_images(run),
        tables.against_best_view(run),
        tables.by_task(lines),
        tables.by_position(summaries),
        *(() if run.is_replay else [tables.time(summaries)]),
        tables.divergences(run),
        tables.notes(run),
        tables.skipped_samples(run),
        tables.settings(run),
    ]
    return [table for table in every if table.rows]


def csv_files(run: BenchRun, lines: Sequence[Summary]) -> dict[str, str]:
    """Unrounded measures by file: by task and method; by task, turn, images and method."""
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
    """Cells by column: one per position of a list, one per key of a dictionary."""
    line: dict[str, Any] = {}
    for name, value in values.items():
        match value:
            case list():
                line |= {f"{name}_{i}": entry for i, entry in enumerate(value, start=1)}
            case dict():
                line |= {f"{name}_{key}": entry for key, entry in value.items()}
            case str() if value.startswith(("=", "+", "-", "@")):
                line[name] = f"'{value}"  # spreadsheets would read it as a formula
            case _:
                line[name] = value
    return line
