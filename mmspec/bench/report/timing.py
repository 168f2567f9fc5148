"""Tables of time: speeds, speed-ups, seconds by stage."""

from collections.abc import Sequence

from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.table import Table, measured, several
from mmspec.bench.suite import metrics
from mmspec.bench.suite.rows import PLAIN
from mmspec.bench.suite.summary import Summary


def speeds(summaries: Sequence[Summary]) -> Table:
    """Tokens per second and time to first token."""
    columns = (
        *("method", "tokens/s", "p50", "p95", "first token p50, s", "p95, s"),
        *("peak memory, MiB",),
    )
    note = (
        "Tokens over decode seconds, pooled, and as reached by 50 % and 95 % of the answers; "
        "seconds to the first token that 50 % and 95 % of the answers did not exceed."
    )
    return Table("Speed", columns, [_speed(each) for each in summaries], note, brief=True)


def _speed(each: Summary) -> tuple[str, ...]:
    rates = (each.tokens_per_second, each.tokens_per_second_p50, each.tokens_per_second_p95)
    first = (each.first_token_p50, each.first_token_p95)
    memory = f"{each.peak_memory_bytes / 2**20:.0f}"
    return (each.method, *(measured(rate, 1) for rate in rates), *map(_seconds, first), memory)


def _seconds(value: float) -> str:
    return measured(value, 3)


def speed_ups(summaries: Sequence[Summary]) -> Table:
    """Measured speed-ups beside the predicted one and the papers' formula."""
    columns = (
        *("method", "decoding, paired", "global", "end to end, paired", "global"),
        *("predicted", "formula"),
    )
    note = (
        "Measured against plain decoding of the same questions, between decoding alone and from "
        "question to last token; paired is the mean over answers, global the quotient of sums. "
        "Predicted (from measured costs of single forwards) and the papers' formula stand beside "
        "the decoding columns, not in their place."
    )
    lines = [_speed_up(each) for each in summaries if each.method != PLAIN]
    return Table("Speed-up", columns, lines, note, brief=True)


def _speed_up(each: Summary) -> tuple[str, ...]:
    values = (
        *(each.speed_up_paired, each.speed_up_global),
        *(each.end_to_end_paired, each.end_to_end_global),
        *(each.speed_up_predicted, each.speed_up_formula),
    )
    return (each.method, *map(measured, values))


def stages(run: Run) -> Table:
    """Mean seconds of an answer by images and stage; first turns alone."""
    first = [row for row in run.of(*run.compared) if row.turn == 0]
    groups = grouped(first, lambda row: (row.images, row.method))
    lines = []
    for images in sorted({images for images, _ in groups}):
        for method in (name for name in run.compared if (images, name) in groups):
            seconds = metrics.stage_seconds(groups[images, method])
            cells = (_seconds(value) for value in (*seconds.values(), sum(seconds.values())))
            lines.append((several(images, "image"), method, *cells))
    note = "Mean seconds of an answer; first turns, which pay for the whole prompt."
    columns = ("images", "method", *metrics.STAGES, "total")
    return Table("Seconds by stage", columns, lines, note, words=2)
