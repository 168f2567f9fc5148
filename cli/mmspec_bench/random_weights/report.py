"""Tables of a measurement on random weights."""

from collections.abc import Iterator

from mmspec_bench.random_weights.bandwidth_bound import Cost
from mmspec_bench.random_weights.measure import RandomWeightsReport
from mmspec_bench.report.table import Table

Row = tuple[str, ...]


def tables(report: RandomWeightsReport) -> list[Table]:
    """Forwards with their bandwidth bound, the stages before the first token, and ratios."""
    peak = f"{report.peak_memory_bytes / 2**30:.2f} GiB"
    ratios = [(name, f"{ratio:.3f}") for name, ratio in report.ratios.items()]
    columns = ("", "positions", "ms", "positions/s")
    return [
        Table(_setting(report), ("", "ms", "bound, ms", "bound / ms"), list(_forwards(report))),
        Table("Before the first token", columns, list(_before(report))),
        Table(f"Ratios; peak memory {peak}", ("", "measured"), ratios),
    ]


def _setting(report: RandomWeightsReport) -> str:
    return (
        f"{report.checkpoint}, random weights, on {report.device}, "
        f"{report.dtype}, quantize {report.quantize}; "
        f"{report.positions} positions; copies move {report.bandwidth / 1e9:.0f} GB/s; "
        f"medians of {report.repeats}"
    )


def _forwards(report: RandomWeightsReport) -> Iterator[Row]:
    for rows, cost in report.verify.items():
        yield _forward("plain step" if rows == 1 else f"verify {rows} rows", cost, report)
    for drafting, cost in report.draft.items():
        yield _forward(f"drafted token, {drafting}", cost, report)


def _forward(name: str, cost: Cost, report: RandomWeightsReport) -> Row:
    bound = cost.bound(report.bandwidth)
    return name, _ms(cost.seconds), _ms(bound), f"{bound / cost.seconds:.0%}"


def _before(report: RandomWeightsReport) -> Iterator[Row]:
    yield "vision tower, one image", "", _ms(report.vision), ""
    for images, prefill in report.prefill.items():
        rate = f"{prefill.positions / prefill.seconds:.0f}"
        yield f"prefill, images: {images}", str(prefill.positions), _ms(prefill.seconds), rate


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"
