"""Compares every method's block efficiency with the best single view's, with intervals."""

from mmspec_bench.report.merge import BenchRun
from mmspec_bench.report.table import Table, count_of, number, percent, signed_percent
from mmspec_bench.suite.confidence import DRAWS, LEVEL, difference
from mmspec_bench.suite.methods import read_method
from mmspec_bench.suite.metrics import block_efficiency

FEW_SAMPLES = 20
"""Number of samples below which bootstrap intervals are too narrow."""


def tables(run: BenchRun) -> list[Table]:
    """A table of every other method; none if no single view was run, or no other method."""
    values = {name: block_efficiency(run.of(name)) for name in run.drafting}
    views = [name for name in run.drafting if values[name] and _is_single_view(name)]
    best = max(views, key=lambda name: values[name], default="")
    found = {
        name: interval
        for name in run.drafting
        if best not in ("", name) and (interval := difference(run.of(name), run.of(best)))
    }
    if not found:
        return []
    samples = next(iter(found.values())).samples
    note = (
        f"Tokens per round (micro) beside the {number(values[best])} of {best}, the best single "
        f"view. Interval: {percent(LEVEL, 0)} of {DRAWS:,} paired resamples of "
        f"{count_of(samples, 'sample')}; the best view was chosen on the same answers."
    )
    if samples < FEW_SAMPLES:
        note += f" With fewer than {FEW_SAMPLES} samples the interval is too narrow to rely on."
    columns = ("method", "tokens per round", f"than {best}", "from", "to")
    lines = [
        (name, number(values[name]), *map(signed_percent, interval[1:]))
        for name, interval in found.items()
    ]
    return [Table("Against the best single view", columns, lines, note, in_terminal=True)]


def _is_single_view(name: str) -> bool:
    method = read_method(name)
    return len(method.letters) == 1 and not method.tree
