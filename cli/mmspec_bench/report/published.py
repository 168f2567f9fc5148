"""Published numbers, read from `published.toml`, beside a run's own in separate columns."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import isnan, nan
from typing import Any, NamedTuple

from mmspec.errors import choice
from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.report.provenance_tables import title
from mmspec_bench.report.table import Section, Table, number
from mmspec_bench.suite import metrics

PREFIX = "paper:"
PAPERS = ("ibed", "tabed", "mmspec")
EVERYTHING = "all"
"""Name for all datasets in the `sets` of a column."""
COLUMNS_PER_TABLE = 4
"""Published columns per table of the report; each needs two columns there."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a published table: a measure of a summary, averaged over datasets."""

    name: str
    measure: str
    sets: tuple[str, ...]
    turn: int | None
    """The turn of the measured answers; None for all turns."""

    @property
    def pools(self) -> bool:
        """True if the column averages over more than one dataset."""
        return len(self.sets) > 1 or EVERYTHING in self.sets


@dataclass(frozen=True, slots=True)
class Line:
    """One published row: a value for each column, nan if the paper gives none."""

    label: str
    methods: tuple[str, ...]
    """The corresponding methods of `bench run`, the most similar first."""
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table of published numbers."""

    title: str
    source: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's tables and the conditions they were measured under."""

    title: str
    reference: str
    target: str
    draft: str
    hardware: str
    setting: str
    tasks: dict[str, tuple[str, ...]]
    """By dataset, the tasks of a run that imitate it."""
    tables: tuple[PaperTable, ...]

    @property
    def label(self) -> str:
        """Target, draft, hardware and settings in one sentence."""
        models = f"target {self.target}; draft {self.draft}"
        return f"{self.title}: {models}; hardware {self.hardware}; {self.setting}."


def read_paper(name: str) -> Paper:
    """The paper with a name such as `paper:ibed`; raises UsageError for an unknown one."""
    allowed = [PREFIX + paper for paper in PAPERS]
    if name not in allowed:
        raise choice("comparison", name, allowed)
    entry = dict(_papers()[name.removeprefix(PREFIX)])
    tasks = {dataset: tuple(names) for dataset, names in entry.pop("tasks").items()}
    tables = tuple(map(_table, entry.pop("tables")))
    return Paper(**entry, tasks=tasks, tables=tables)


@cache
def _papers() -> dict[str, Any]:
    text = files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _table(entry: dict[str, Any]) -> PaperTable:
    columns = tuple(
        Column(
            column["name"],
            column.get("measure", entry.get("measure")),
            tuple(column.get("sets", (column["name"],))),
            column.get("turn", entry.get("turn")),
        )
        for column in entry["columns"]
    )
    lines = tuple(
        Line(line["label"], tuple(line["methods"]), tuple(line["values"])) for line in entry["rows"]
    )
    return PaperTable(entry["title"], entry["source"], columns, lines)


class PublishedComparison(NamedTuple):
    """A published number and this run's for the same measure; nan where one is missing."""

    label: str
    method: str
    column: str
    ours: float
    published: float


def compare(run: BenchRun, paper: Paper, table: PaperTable) -> list[PublishedComparison]:
    """Every published row with its method in this run, then the methods without a row."""
    methods = {line: _method(line, run) for line in table.lines}
    blank = (nan,) * len(table.columns)
    others = [name for name in run.drafting if name not in methods.values()]
    lines = [*methods.items(), *((Line(name, (), blank), name) for name in others)]
    return [
        PublishedComparison(
            line.label, method, column.name, _ours(run, paper, column, method), value
        )
        for line, method in lines
        for column, value in zip(table.columns, line.values, strict=True)
    ]


def _method(line: Line, run: BenchRun) -> str:
    return next((name for name in line.methods if name in run.drafting), "")


def _ours(run: BenchRun, paper: Paper, column: Column, method: str) -> float:
    """This run's mean over the column's datasets; nan if one of them was not measured."""
    return metrics.mean(
        _dataset_value(
            run, run.tasks if name == EVERYTHING else paper.tasks.get(name, ()), column, method
        )
        for name in column.sets
    )


def _dataset_value(run: BenchRun, tasks: Sequence[str], column: Column, method: str) -> float:
    rows, plain = (
        [row for row in rows if row.task in tasks and column.turn in (None, row.turn)]
        for rows in (run.of(method), run.plain)
    )
    value = metrics.summarise(rows, plain)[column.measure]
    # Only a share of identical answers can be 0; elsewhere 0 means that nothing was measured.
    return float(value) if value or (value == 0 and column.measure == "identical") else nan


def section(run: BenchRun, paper: Paper) -> Section:
    """The paper's tables with this run's numbers beside the published ones."""
    present = {
        name: " and ".join(task for task in tasks if task in run.tasks)
        for name, tasks in paper.tasks.items()
    }
    stand_ins = "; ".join(f"{tasks} for {name}" for name, tasks in present.items() if tasks)
    gamma, tokens = run.settings["gamma"], run.settings["max_new_tokens"]
    remarks = [
        f"Ours: {title(run)}; gamma {gamma}, at most {tokens} tokens.",
        f"{paper.label} {paper.reference}.",
        f"Tasks that stand for datasets: {stand_ins or 'none'}; other datasets are blank.",
    ]
    tables = [narrow for table in paper.tables for narrow in _tables(run, paper, table)]
    return Section(f"Beside {paper.title}", remarks, tables)


def first_turn_values(run: BenchRun, paper: Paper) -> dict[tuple[str, str], float]:
    """Published block efficiencies of first turns by task and method of this run."""
    return {
        (task, method): value
        for table in paper.tables
        for line in table.lines
        if (method := _method(line, run))
        for column, value in zip(table.columns, line.values, strict=True)
        if (column.measure, column.turn) == ("block_efficiency", 0) and not column.pools
        for task in paper.tasks.get(column.name, ())
        if task in run.tasks and not isnan(value)
    }


def _tables(run: BenchRun, paper: Paper, table: PaperTable) -> Iterator[Table]:
    """A published table, split into narrow ones."""
    lines = grouped(compare(run, paper, table), _line_name)
    for start in range(0, len(table.columns), COLUMNS_PER_TABLE):
        part = slice(start, start + COLUMNS_PER_TABLE)
        names = [column.name for column in table.columns[part]]
        heads = [f"{name}, {whose}" for name in names for whose in ("ours", paper.title)]
        rows = [(name, *_cells(values[part])) for name, values in lines.items()]
        yield Table(
            f"{table.title}: {', '.join(names)}",
            ("method", *heads),
            [row for row in rows if any(row[1:])],
            f"{paper.title}: {table.source}.",
            in_terminal=any(column.pools for column in table.columns[part]),
        )


def _line_name(value: PublishedComparison) -> str:
    """The label of a published row, with the method's name if that differs."""
    same = value.method in ("", value.label)
    return value.label if same else f"{value.label} ({value.method})"


def _cells(values: Sequence[PublishedComparison]) -> list[str]:
    return [number(value) for pair in values for value in (pair.ours, pair.published)]
