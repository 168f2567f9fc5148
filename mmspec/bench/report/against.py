"""Tables of every method's block efficiency beside the best single view's, with its uncertainty."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.table import Table, number, percent, several, signed
from mmspec.bench.suite.confidence import DRAWS, LEVEL, Difference, difference
from mmspec.bench.suite.methods import read_method
from mmspec.bench.suite.metrics import block_efficiency
from mmspec.bench.suite.rows import Row

PAPERS = (1, 2, 5)
"""Images of the questions that the papers' tables are about."""
FEW = 20
"""Samples below which resampling them makes intervals that are too narrow."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One method in one group of answers."""

    group: str
    best: str
    method: str
    block_efficiency: float
    difference: Difference


def compared(run: Run) -> list[Compared]:
    """Every method beside the best single view of each group, all answers first."""
    return [each for name, rows in _groups(run).items() for each in _compared(run, name, rows)]


def _groups(run: Run) -> dict[str, list[Row]]:
    """All; those of each number of images; where there are others, those the papers have."""
    drafted = run.of(*run.drafting)
    counts = sorted({row.images for row in drafted})
    groups = {"all": drafted}
    if len(counts) > 1:
        groups |= {
            several(count, "image"): [row for row in drafted if row.images == count]
            for count in counts
        }
    if set(counts) > set(PAPERS):
        groups["1, 2 and 5 images"] = [row for row in drafted if row.images in PAPERS]
    return groups


def _compared(run: Run, group: str, rows: Sequence[Row]) -> Iterator[Compared]:
    by_method = grouped(rows, lambda row: row.method)
    reached = {name: block_efficiency(by_method.get(name, ())) for name in run.drafting}
    single = [name for name in run.drafting if reached[name] and _single(name)]
    if not single:
        return
    best = max(single, key=lambda name: reached[name])
    for name in run.drafting:
        found = difference(by_method.get(name, ()), by_method[best])
        if name != best and found:
            yield Compared(group, best, name, reached[name], found)


def _single(name: str) -> bool:
    """Whether a method drafts chains from one view of the prompt in every round."""
    method = read_method(name)
    return len(method.letters) == 1 and not (method.tree or method.viskip)


def tables(run: Run) -> list[Table]:
    """All answers; and, where there are several, each number of images."""
    groups = grouped(compared(run), lambda each: each.group)
    if not groups:
        return []
    all_ = groups.pop("all")
    return [_overall(run, all_), *([_by_images(run, groups)] if groups else ())]


def _overall(run: Run, every: Sequence[Compared]) -> Table:
    best, samples = every[0].best, every[0].difference.samples
    reached = number(block_efficiency(run.of(best)))
    note = (
        f"Tokens per round (micro) beside the {reached} of {best}, the best single view. Interval: "
        f"{percent(LEVEL, 0)} of {DRAWS:,} paired resamples of {several(samples, 'sample')}; which "
        "view is the best was seen on the same answers, and is taken as given."
    )
    if samples < FEW:
        note += f" From fewer than {FEW} samples such an interval is too narrow to rely on."
    columns = ("method", "tokens per round", f"than {best}", "from", "to")
    return Table(
        "Against the best single view", columns, [_line(e) for e in every], note, brief=True
    )


def _line(each: Compared) -> tuple[str, ...]:
    found = each.difference
    values = map(signed, (found.value, found.low, found.high))
    return (each.method, number(each.block_efficiency), *values)


def _by_images(run: Run, groups: dict[str, list[Compared]]) -> Table:
    columns = [f"{group}, than {found[0].best}" for group, found in groups.items()]
    cells = [{each.method: _interval(each) for each in found} for found in groups.values()]
    named = [name for name in run.drafting if any(name in each for each in cells)]
    lines = [(name, *(each.get(name, "") for each in cells)) for name in named]
    note = (
        "The same by images in the conversation so far, all tasks and turns; each beside the best "
        "single view there."
    )
    return Table("Against the best single view, by images", ("method", *columns), lines, note)


def _interval(each: Compared) -> str:
    found = each.difference
    return f"{signed(found.value)} ({signed(found.low)} to {signed(found.high)})"
