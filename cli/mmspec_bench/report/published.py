"""Published numbers, read from `published.toml`, beside a run's own in separate columns."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from math import nan

from mmspec.ground.errors import choice
from mmspec.ground.json_reader import read_value
from mmspec_bench.report.merge import BenchRun
from mmspec_bench.report.tables import title
from mmspec_bench.suite import metrics
from mmspec_bench.table import Table, number

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
    measure: str = ""
    """Empty for the table's."""
    turn: int | None = None
    """The turn of the measured answers; None for the table's."""
    sets: list[str] = field(default_factory=list)
    """Empty for the dataset of the column's name."""

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
    rows: list[Line]
    measure: str = ""
    turn: int | None = None
    """None for all turns."""


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
    text = files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return read_value(Paper, tomllib.loads(text)[name.removeprefix(PREFIX)])


def conditions(run: BenchRun, paper: Paper) -> Iterator[str]:
    """What stands on both sides of a paper's tables, one remark for each side and for the tasks."""
    settings = run.settings
    yield (
        f"Ours, beside {paper.title}: {title(run)}; gamma {settings.get('gamma')}, at most "
        f"{settings.get('max_new_tokens')} tokens."
    )
    yield (
        f"{paper.title}: target {paper.target}; draft {paper.draft}; hardware {paper.hardware}; "
        f"{paper.setting}. {paper.reference}."
    )
    present = {
        name: " and ".join(task for task in tasks if task in run.tasks)
        for name, tasks in paper.tasks.items()
    }
    stand_ins = "; ".join(f"{tasks} for {name}" for name, tasks in present.items() if tasks)
    yield f"Tasks that stand for datasets: {stand_ins or 'none'}; other datasets are blank."


def compared_tables(run: BenchRun, paper: Paper) -> Iterator[Table]:
    """The paper's tables with this run's numbers beside, in parts of COLUMNS_PER_TABLE columns."""
    for table in paper.tables:
        lines = [
            (line.label, next((n for n in line.methods if n in run.drafting), ""), line.values)
            for line in table.rows
        ]
        published = {method for _, method, _ in lines}
        blank = [nan] * len(table.columns)
        lines += [(name, name, blank) for name in run.drafting if name not in published]
        for start in range(0, len(table.columns), COLUMNS_PER_TABLE):
            part = slice(start, start + COLUMNS_PER_TABLE)
            columns = table.columns[part]
            names = [column.name for column in columns]
            rows = []
            for label, method, values in lines:
                ours = (_ours(run, paper, table, column, method) for column in columns)
                pairs = zip(ours, values[part], strict=True)
                name = label if method in ("", label) else f"{label} ({method})"
                rows.append((name, *(number(value) for pair in pairs for value in pair)))
            yield Table(
                f"Beside {paper.title}: {table.title}: {', '.join(names)}",
                ("method", *(f"{name}, {who}" for name in names for who in ("ours", paper.title))),
                [row for row in rows if any(row[1:])],
                f"{paper.title}: {table.source}.",
                in_terminal=any(column.pools for column in columns),
            )


def _ours(run: BenchRun, paper: Paper, table: PaperTable, column: Column, method: str) -> float:
    """This run's mean over the column's datasets; nan if one of them was not measured."""
    values, measure = [], column.measure or table.measure
    turn = table.turn if column.turn is None else column.turn
    for name in column.sets or [column.name]:
        tasks = run.tasks if name == EVERYTHING else paper.tasks.get(name, ())
        rows, plain = (
            [row for row in rows if row.task in tasks and turn in (None, row.turn)]
            for rows in (run.of(method), run.timed_plain)
        )
        value = metrics.summarise(rows, plain)[measure]
        # Only a share of identical answers can be 0; elsewhere 0 means that nothing was measured.
        measured = value or (value == 0 and measure == "identical")
        values.append(float(value) if measured else nan)
    return metrics.mean(values)
