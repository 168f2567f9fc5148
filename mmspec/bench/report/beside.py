"""Published numbers beside a run's own, each in columns of their own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan

from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.origin import title
from mmspec.bench.report.published import EVERYTHING, Column, Line, Paper, PaperTable
from mmspec.bench.report.table import Section, Table
from mmspec.bench.suite import metrics
from mmspec.bench.suite.prediction import StepCosts, formula_speed_up
from mmspec.bench.suite.rows import PLAIN, Row

Measure = Callable[[Sequence[Row], Sequence[Row], Sequence[StepCosts]], float | None]
"""Of a method's rows and plain decoding's, with measured costs."""

IDENTICAL = "identical"
MEASURES: dict[str, Measure] = {
    "block_efficiency": lambda rows, _plain, _costs: metrics.block_efficiency(rows),
    "speed_up_formula": lambda rows, _plain, costs: formula_speed_up(rows, costs),
    "speed_up_global": lambda rows, plain, _costs: metrics.global_speed_up(
        metrics.pairs(rows, plain)
    ),
    "speed_up_paired": lambda rows, plain, _costs: metrics.mean(
        metrics.paired_speed_ups(metrics.pairs(rows, plain))
    ),
    IDENTICAL: lambda rows, _plain, _costs: metrics.identical_rate(rows),
}
"""What published columns are of."""

WIDTH = 4
"""Columns of a paper in one table; each becomes two."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A published number and this run's, nan where one of them is missing."""

    table: str
    label: str
    method: str
    column: str
    ours: float
    published: float


Groups = dict[tuple[str, str], list[Row]]
"""Rows by method and task."""


def compare(run: Run, paper: Paper, table: PaperTable) -> list[Compared]:
    """Every published row with the method that stands for it, then the methods without any."""
    groups = grouped(run.rows, lambda row: (row.method, row.task))
    taken = {line: _method(line, run) for line in table.lines}
    others = [name for name in run.drafting if name not in taken.values()]
    blank = (nan,) * len(table.columns)
    every = [*taken.items(), *((Line(name, (), blank), name) for name in others)]
    return [
        Compared(
            table.title,
            line.label,
            method,
            column.name,
            metrics.mean(
                _ours(run, groups, tasks, column, method) for tasks in _tasks(run, paper, column)
            ),
            value,
        )
        for line, method in every
        for column, value in zip(table.columns, line.values, strict=True)
    ]


def _method(line: Line, run: Run) -> str:
    return next((name for name in line.methods if name in run.drafting), "")


def _tasks(run: Run, paper: Paper, column: Column) -> list[tuple[str, ...]]:
    """The tasks of each of a column's datasets."""
    return [
        tuple(run.tasks) if name == EVERYTHING else paper.tasks.get(name, ())
        for name in column.sets
    ]


def _ours(run: Run, groups: Groups, tasks: Sequence[str], column: Column, method: str) -> float:
    """The measure over the rows of one dataset; nan where there is nothing to measure."""
    rows, plain = (
        [
            row
            for task in tasks
            for row in groups.get((name, task), ())
            if column.turn in (None, row.turn)
        ]
        for name in (method, PLAIN)
    )
    value = MEASURES[column.measure](rows, plain, run.costs)
    # 0 stands for what was not measured; a share of identical answers has None for that.
    return float(value) if value or (value == 0 and column.measure == IDENTICAL) else nan


def section(run: Run, paper: Paper) -> Section:
    """The paper's tables with this run's numbers in them."""
    found = {
        name: [task for task in tasks if task in run.tasks] for name, tasks in paper.tasks.items()
    }
    stand = "; ".join(f"{' and '.join(tasks)} for {name}" for name, tasks in found.items() if tasks)
    told = run.told[0]
    remarks = [
        f"Ours: {title(run)}; gamma {told['gamma']}, at most {told['max_new_tokens']} tokens.",
        f"{paper.label} {paper.reference}.",
        f"Tasks that stand for datasets: {stand or 'none'}; ours is blank without any.",
    ]
    tables = [each for table in paper.tables for each in _tables(run, paper, table)]
    return Section(f"Beside {paper.title}", remarks, (), tables)


def by_task(run: Run, paper: Paper) -> dict[tuple[str, str], float]:
    """Published block efficiencies of first turns by task and method, where the run has both."""
    return {
        (task, method): value
        for table in paper.tables
        for line in table.lines
        if (method := _method(line, run))
        for column, value in zip(table.columns, line.values, strict=True)
        if (column.measure, column.turn) == ("block_efficiency", 0) and not _pooled(column)
        for task in paper.tasks.get(column.name, ())
        if task in run.tasks and not isnan(value)
    }


def _tables(run: Run, paper: Paper, table: PaperTable) -> Iterator[Table]:
    """Narrow ones, of a few columns each."""
    lines: dict[str, list[Compared]] = {}
    for each in compare(run, paper, table):
        lines.setdefault(_named(each), []).append(each)
    for start in range(0, len(table.columns), WIDTH):
        columns = table.columns[start : start + WIDTH]
        names = [column.name for column in columns]
        heads = [f"{name}, {whose}" for name in names for whose in ("ours", paper.title)]
        cells = [_line(name, every[start : start + WIDTH]) for name, every in lines.items()]
        about = f"{table.title}: {', '.join(names)}"
        shown = [line for line in cells if any(line[1:])]
        note = f"{paper.title}: {table.source}."
        yield Table(about, ("method", *heads), shown, note, brief=any(map(_pooled, columns)))


def _pooled(column: Column) -> bool:
    return len(column.sets) > 1 or EVERYTHING in column.sets


def _named(each: Compared) -> str:
    """A published row's label, with the method's own name where that is another."""
    return each.label if each.method in ("", each.label) else f"{each.label} ({each.method})"


def _line(name: str, every: Sequence[Compared]) -> tuple[str, ...]:
    values = (value for each in every for value in (each.ours, each.published))
    return (name, *("" if isnan(value) else f"{value:.2f}" for value in values))
