"""Tables of time: speeds, speed-ups, seconds by stage."""

from collections.abc import Sequence
from functools import partial

from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.report.table import Table, count_of, of_methods, positive
from mmspec_bench.suite import metrics
from mmspec_bench.suite.rows import PLAIN
from mmspec_bench.suite.summary import Summary


def speeds(summaries: Sequence[Summary]) -> Table:
    """Tokens per second, time to first token, peak memory."""
    note = (
        "Tokens over decoding seconds, pooled, and the speeds that 50 % and 95 % of the answers "
        "reach; seconds within which 50 % and 95 % of the answers begin."
    )
    speed, seconds = partial(positive, digits=1), partial(positive, digits=3)
    columns = (
        ("tokens/s", "tokens_per_second", speed),
        ("p50", "tokens_per_second_p50", speed),
        ("p95", "tokens_per_second_p95", speed),
        ("first token p50, s", "first_token_p50", seconds),
        ("p95, s", "first_token_p95", seconds),
        ("peak memory, MiB", "peak_memory_bytes", lambda peak: f"{peak / 2**20:.0f}"),
    )
    return of_methods("Speed", note, columns, summaries)


def speed_ups(summaries: Sequence[Summary]) -> Table:
    """Speed-ups over plain decoding: decoding alone, and end to end."""
    note = (
        "Measured against plain decoding of the same questions: decoding alone, and from question "
        "to last token. Paired: mean over answers; global: quotient of sums."
    )
    columns = (
        ("decoding, paired", "speed_up_paired", positive),
        ("global", "speed_up_global", positive),
        ("end to end, paired", "end_to_end_paired", positive),
        ("global", "end_to_end_global", positive),
    )
    drafting = [summary for summary in summaries if summary["method"] != PLAIN]
    return of_methods("Speed-up", note, columns, drafting)


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
