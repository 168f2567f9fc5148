"""Compares every method's block efficiency with the best single view's, with intervals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.report.table import Table, count_of, number, percent, signed_percent
from mmspec_bench.suite.confidence import DRAWS, LEVEL, Difference, difference
from mmspec_bench.suite.methods import read_method
from mmspec_bench.suite.metrics import block_efficiency
from mmspec_bench.suite.rows import Row

PAPER_IMAGES = (1, 2, 5)
"""Numbers of images in the questions of the papers' tables."""
FEW_SAMPLES = 20
"""Number of samples below which bootstrap intervals are too narrow."""


@dataclass(frozen=True, slots=True)
class BestViewComparison:
    """One method compared with the best single view, over one group of answers."""

    group: str
    best: str
    method: str
    block_efficiency: float
    difference: Difference


def comparisons(run: BenchRun) -> list[BestViewComparison]:
    """Every method in every group; the group of all answers is first."""
    return [
        comparison
        for group, rows in _groups(run).items()
        for comparison in _compare(run, group, rows)
    ]


def _groups(run: BenchRun) -> dict[str, list[Row]]:
    """Groups of rows by name: all, by number of images, and those with the papers' numbers."""
    rows = run.of(*run.drafting)
    counts = sorted({row.images for row in rows})
    groups = {"all": rows}
    if len(counts) > 1:
        for count in counts:
            groups[count_of(count, "image")] = [row for row in rows if row.images == count]
    if set(counts) > set(PAPER_IMAGES):
        groups["1, 2 and 5 images"] = [row for row in rows if row.images in PAPER_IMAGES]
    return groups


def _compare(run: BenchRun, group: str, rows: Sequence[Row]) -> Iterator[BestViewComparison]:
    by_method = grouped(rows, lambda row: row.method)
    values = {name: block_efficiency(by_method.get(name, ())) for name in run.drafting}
    views = [name for name in run.drafting if values[name] and _is_single_view(name)]
    if not views:
        return
    best = max(views, key=lambda name: values[name])
    for name in run.drafting:
        interval = difference(by_method.get(name, ()), by_method[best])
        if name != best and interval:
            yield BestViewComparison(group, best, name, values[name], interval)


def _is_single_view(name: str) -> bool:
    method = read_method(name)
    return len(method.letters) == 1 and not method.tree


def tables(run: BenchRun) -> list[Table]:
    """A table of all answers, and one by number of images if there are several."""
    groups = grouped(comparisons(run), lambda comparison: comparison.group)
    if not groups:
        return []
    overall = groups.pop("all")
    return [_overall(run, overall), *([_by_images(run, groups)] if groups else ())]


def _overall(run: BenchRun, comparisons: Sequence[BestViewComparison]) -> Table:
    best, samples = comparisons[0].best, comparisons[0].difference.samples
    note = (
        f"Tokens per round (micro) beside the {number(block_efficiency(run.of(best)))} of {best}, "
        f"the best single view. Interval: {percent(LEVEL, 0)} of {DRAWS:,} paired resamples of "
        f"{count_of(samples, 'sample')}; the best view was chosen on the same answers."
    )
    if samples < FEW_SAMPLES:
        note += f" With fewer than {FEW_SAMPLES} samples the interval is too narrow to rely on."
    columns = ("method", "tokens per round", f"than {best}", "from", "to")
    lines = [
        (
            comparison.method,
            number(comparison.block_efficiency),
            *map(signed_percent, comparison.difference.values),
        )
        for comparison in comparisons
    ]
    return Table("Against the best single view", columns, lines, note, in_terminal=True)


def _by_images(run: BenchRun, groups: dict[str, list[BestViewComparison]]) -> Table:
    columns = [f"{group}, than {some[0].best}" for group, some in groups.items()]
    cells = [
        {comparison.method: _interval(comparison.difference) for comparison in some}
        for some in groups.values()
    ]
    methods = [name for name in run.drafting if any(name in column for column in cells)]
    lines = [(name, *(column.get(name, "") for column in cells)) for name in methods]
    note = (
        "The same by images in the conversation so far, all tasks and turns, each beside the best "
        "single view there."
    )
    return Table("Against the best single view, by images", ("method", *columns), lines, note)


def _interval(difference: Difference) -> str:
    value, low, high = map(signed_percent, difference.values)
    return f"{value} ({low} to {high})"
