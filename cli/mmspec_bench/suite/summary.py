"""Computes all measures of one method."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mmspec_bench.suite import metrics
from mmspec_bench.suite.rows import Row


@dataclass(frozen=True, slots=True)
class Summary:
    """The measures of one method over some rows; docs/measuring.md defines them."""

    method: str
    answers: int
    rounds: int
    tokens: int
    block_efficiency: float
    macro_block_efficiency: float
    acceptance_rate: float
    acceptance_by_position: list[float]
    conditional_acceptance_by_position: list[float]
    tokens_per_second: float
    tokens_per_second_p50: float
    tokens_per_second_p95: float
    first_token_p50: float
    first_token_p95: float
    speed_up_paired: float
    speed_up_global: float
    end_to_end_paired: float
    end_to_end_global: float
    seconds: dict[str, float]
    identical: float | None
    peak_memory_bytes: int
    facts_right: int
    facts_asked: int

    def as_dict(self) -> dict[str, Any]:
        """All measures as a JSON-serializable object."""
        return asdict(self)


def summarise(rows: Sequence[Row], plain: Sequence[Row]) -> Summary:
    """All measures of one method's rows; speed-ups over the questions that `plain` answered too."""
    paired = metrics.pairs(rows, plain)
    rates, first = metrics.tokens_per_second(rows), metrics.first_token_seconds(rows)
    right, total_facts = metrics.facts_right(rows)
    return Summary(
        method=rows[0].method if rows else "",
        answers=len(rows),
        rounds=sum(len(row.rounds) for row in rows),
        tokens=sum(row.emitted for row in rows),
        block_efficiency=metrics.block_efficiency(rows),
        macro_block_efficiency=metrics.macro_block_efficiency(rows),
        acceptance_rate=metrics.acceptance_rate(rows),
        acceptance_by_position=metrics.acceptance_by_position(rows),
        conditional_acceptance_by_position=metrics.acceptance_by_position(rows, conditional=True),
        tokens_per_second=metrics.throughput(rows),
        tokens_per_second_p50=metrics.reached_by(rates, 50),
        tokens_per_second_p95=metrics.reached_by(rates, 95),
        first_token_p50=metrics.percentile(first, 50),
        first_token_p95=metrics.percentile(first, 95),
        speed_up_paired=metrics.mean(metrics.paired_speed_ups(paired)),
        speed_up_global=metrics.global_speed_up(paired),
        end_to_end_paired=metrics.mean(metrics.paired_speed_ups(paired, "total")),
        end_to_end_global=metrics.global_speed_up(paired, "total"),
        seconds=metrics.stage_seconds(rows),
        identical=metrics.identical_rate(rows),
        peak_memory_bytes=metrics.peak_memory_bytes(rows),
        facts_right=right,
        facts_asked=total_facts,
    )
