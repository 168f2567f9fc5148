"""All measures of one method by name; docs/measuring.md defines them."""

from collections.abc import Callable, Sequence
from typing import Any

from mmspec_bench.suite import metrics
from mmspec_bench.suite.metrics import Pair, first_token_seconds, tokens_per_second
from mmspec_bench.suite.rows import Row

Summary = dict[str, Any]
"""`method` and its measures by name, JSON-serializable."""

Measure = Callable[[Sequence[Row], Sequence[Pair]], Any]
"""Function of a method's rows, and of those rows with plain decoding's."""

MEASURES: dict[str, Measure] = {
    "answers": lambda rows, _: len(rows),
    "rounds": lambda rows, _: sum(len(row.rounds) for row in rows),
    "tokens": lambda rows, _: sum(row.emitted for row in rows),
    "block_efficiency": lambda rows, _: metrics.block_efficiency(rows),
    "macro_block_efficiency": lambda rows, _: metrics.macro_block_efficiency(rows),
    "acceptance_rate": lambda rows, _: metrics.acceptance_rate(rows),
    "acceptance_by_position": lambda rows, _: metrics.acceptance_by_position(rows),
    "conditional_acceptance_by_position": lambda rows, _: metrics.acceptance_by_position(
        rows, conditional=True
    ),
    "tokens_per_second": lambda rows, _: metrics.throughput(rows),
    "tokens_per_second_p50": lambda rows, _: metrics.reached_by(tokens_per_second(rows), 50),
    "tokens_per_second_p95": lambda rows, _: metrics.reached_by(tokens_per_second(rows), 95),
    "first_token_p50": lambda rows, _: metrics.percentile(first_token_seconds(rows), 50),
    "first_token_p95": lambda rows, _: metrics.percentile(first_token_seconds(rows), 95),
    "speed_up_paired": lambda _, paired: metrics.mean(metrics.paired_speed_ups(paired)),
    "speed_up_global": lambda _, paired: metrics.global_speed_up(paired),
    "end_to_end_paired": lambda _, paired: metrics.mean(metrics.paired_speed_ups(paired, "total")),
    "end_to_end_global": lambda _, paired: metrics.global_speed_up(paired, "total"),
    "seconds": lambda rows, _: metrics.stage_seconds(rows),
    "identical": lambda rows, _: metrics.identical_rate(rows),
    "peak_memory_bytes": lambda rows, _: max((row.peak_memory_bytes for row in rows), default=0),
    "facts_right": lambda rows, _: metrics.facts_right(rows)[0],
    "facts_asked": lambda rows, _: metrics.facts_right(rows)[1],
}


def summarise(rows: Sequence[Row], plain: Sequence[Row]) -> Summary:
    """All measures of one method's rows; speed-ups over the questions that `plain` answered too."""
    paired = metrics.pairs(rows, plain)
    measures = {name: measure(rows, paired) for name, measure in MEASURES.items()}
    return {"method": rows[0].method if rows else ""} | measures
