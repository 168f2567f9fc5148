"""Tables of time: speeds, speed-ups, seconds by stage."""

from collections.abc import Sequence

from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.report.table import Table, count_of, positive
from mmspec_bench.suite import metrics
from mmspec_bench.suite.rows import PLAIN
from mmspec_bench.suite.summary import Summary


def speeds(summaries: Sequence[Summary]) -> Table:
    """Tokens per second, time to first token, peak memory."""
    columns = ("method", "tokens/s", "p50", "p95", "first token p50, s", "p95, s")
    note = (
        "Tokens over decoding seconds, pooled, and the speeds that 50 % and 95 % of the answers "
        "reach; seconds within which 50 % and 95 % of the answers begin."
    )
    lines = [_speed_line(summary) for summary in summaries]
    return Table("Speed", (*columns, "peak memory, MiB"), lines, note, in_terminal=True)


def _speed_line(summary: Summary) -> tuple[str, ...]:
    return (
        summary.method,
        positive(summary.tokens_per_second, 1),
        positive(summary.tokens_per_second_p50, 1),
        positive(summary.tokens_per_second_p95, 1),
        positive(summary.first_token_p50, 3),
        positive(summary.first_token_p95, 3),
        f"{summary.peak_memory_bytes / 2**20:.0f}",
    )


def speed_ups(summaries: Sequence[Summary]) -> Table:
    """Speed-ups over plain decoding: decoding alone, and end to end."""
    columns = ("method", "decoding, paired", "global", "end to end, paired", "global")
    note = (
        "Measured against plain decoding of the same questions: decoding alone, and from question "
        "to last token. Paired: mean over answers; global: quotient of sums."
    )
    lines = [_speed_up_line(summary) for summary in summaries if summary.method != PLAIN]
    return Table("Speed-up", columns, lines, note, in_terminal=True)


def _speed_up_line(summary: Summary) -> tuple[str, ...]:
    values = (
        summary.speed_up_paired,
        summary.speed_up_global,
        summary.end_to_end_paired,
        summary.end_to_end_global,
    )
    return (summary.method, *map(positive, values))


def stages(run: BenchRun) -> Table:
    """Mean seconds of an answer by images, method and stage."""
    first = [row for row in run.of(*run.decoding) if row.turn == 0]
    groups = grouped(first, lambda row: (row.images, run.decoding.index(row.method)))
    lines = []
    for images, method in sorted(groups):
        seconds = list(metrics.stage_seconds(groups[images, method]).values())
        cells = (positive(value, 3) for value in (*seconds, sum(seconds)))
        lines.append((count_of(images, "image"), run.decoding[method], *cells))
    note = "Mean seconds of an answer; first turns alone, which prefill the whole prompt."
    columns = ("images", "method", *metrics.STAGES, "total")
    return Table("Seconds by stage", columns, lines, note, text_columns=2)
