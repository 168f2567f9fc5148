"""Published numbers, read from `published.toml`, beside a run's own in separate columns."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import isnan, nan
from typing import Any, NamedTuple

from mmspec.ground.errors import choice
from mmspec_bench.report.merge import BenchRun
from mmspec_bench.report.provenance_tables import title
from mmspec_bench.suite import metrics
from mmspec_bench.table import Section, Table, number

PREFIX = "paper:"
PAPERS = ("ibed", "tabed", "mmspec")
EVERYTHING = "all"
"""Name for all datasets in the `sets` of a column."""
COLUMNS_PER_TABLE = 4
"""Published columns per table of the report; each takes two of its columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a published table: a measure of a summary, averaged over datasets."""

    name: str
    measure: str
    sets: list[str]
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
    methods: list[str]
    """The corresponding methods of `bench run`, the most similar first."""
    values: list[float]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table of published numbers."""

    title: str
    source: str
    columns: list[Column]
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's tables and the conditions they were measured under."""

    title: str
    reference: str
    target: str
    draft: str
    hardware: str
    setting: str
    tasks: dict[str, list[str]]
    """By dataset, the tasks of a run that imitate it."""
    tables: list[PaperTable]


def read_paper(name: str) -> Paper:
    """The paper with a name such as `paper:ibed`; raises UsageError for an unknown one."""
    allowed = [PREFIX + paper for paper in PAPERS]
    if name not in allowed:
        raise choice("comparison", name, allowed)
    entry = _papers()[name.removeprefix(PREFIX)]
    return Paper(**entry | {"tables": [_table(table) for table in entry["tables"]]})


@cache
def _papers() -> dict[str, Any]:
    text = files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _table(entry: dict[str, Any]) -> PaperTable:
    shared = {"measure": entry.get("measure"), "turn": entry.get("turn")}
    columns = [
        Column(**{"sets": [column["name"]]} | shared | column) for column in entry["columns"]
    ]
    lines = [Line(**line) for line in entry["rows"]]
    return PaperTable(entry["title"], entry["source"], columns, lines)


class ComparedLine(NamedTuple):
    """A published row and this run's values for its columns; nan where one is missing."""

    label: str
    method: str
    """The row's method in this run, empty without one."""
    ours: list[float]
    published: list[float]

    @property
    def name(self) -> str:
        """The label of the published row, with the method's name if that differs."""
        same = self.method in ("", self.label)
        return self.label if same else f"{self.label} ({self.method})"


def compare(run: BenchRun, paper: Paper, table: PaperTable) -> list[ComparedLine]:
    """Every published row with its method in this run, then the methods without a row."""
    lines = [(line.label, _method(line, run), line.values) for line in table.lines]
    methods = {method for _, method, _ in lines}
    blank = [nan] * len(table.columns)
    lines += [(name, name, blank) for name in run.drafting if name not in methods]
    return [
        ComparedLine(
            label, method, [_ours(run, paper, column, method) for column in table.columns], values
        )
        for label, method, values in lines
    ]


def _method(line: Line, run: BenchRun) -> str:
    return next((name for name in line.methods if name in run.drafting), "")


def _ours(run: BenchRun, paper: Paper, column: Column, method: str) -> float:
    """This run's mean over the column's datasets; nan if one of them was not measured."""
    values = []
    for name in column.sets:
        tasks = run.tasks if name == EVERYTHING else paper.tasks.get(name, ())
        rows, plain = (
            [row for row in rows if row.task in tasks and column.turn in (None, row.turn)]
            for rows in (run.of(method), run.plain)
        )
        value = metrics.summarise(rows, plain)[column.measure]
        # Only a share of identical answers can be 0; elsewhere 0 means that nothing was measured.
        measured = value or (value == 0 and column.measure == "identical")
        values.append(float(value) if measured else nan)
    return metrics.mean(values)


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
        f"{paper.title}: target {paper.target}; draft {paper.draft}; hardware {paper.hardware}; "
        f"{paper.setting}. {paper.reference}.",
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
    """A published table in parts of COLUMNS_PER_TABLE columns."""
    lines = compare(run, paper, table)
    for start in range(0, len(table.columns), COLUMNS_PER_TABLE):
        part = slice(start, start + COLUMNS_PER_TABLE)
        names = [column.name for column in table.columns[part]]
        heads = [f"{name}, {whose}" for name in names for whose in ("ours", paper.title)]
        rows = []
        for line in lines:
            pairs = zip(line.ours[part], line.published[part], strict=True)
            rows.append((line.name, *(number(value) for pair in pairs for value in pair)))
        yield Table(
            f"{table.title}: {', '.join(names)}",
            ("method", *heads),
            [row for row in rows if any(row[1:])],
            f"{paper.title}: {table.source}.",
            in_terminal=any(column.pools for column in table.columns[part]),
        )
