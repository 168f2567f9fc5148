"""Measures over the rows of one method, defined in docs/measuring.md; 0 if nothing was counted.

`plain` are the rows of plain decoding.  Seconds are wall-clock.
"""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from mmspec_bench.suite.rows import AnswerRow

Pair = tuple[AnswerRow, AnswerRow]
Summary = dict[str, Any]
"""`method` and all its measures by name, JSON-serializable."""


def summarise(rows: Sequence[AnswerRow], plain: Sequence[AnswerRow]) -> Summary:
    """All measures of one method's rows; speed-ups over the questions that `plain` answered too."""
    compared = [row.identical for row in rows if row.identical is not None]
    return {
        "method": rows[0].method if rows else "",
        "answers": len(rows),
        "rounds": sum(len(row.rounds) for row in rows),
        "tokens": sum(row.emitted for row in rows),
        "block_efficiency": block_efficiency(rows),
        "nodes_per_round": ratio(
            sum(row.drafted for row in rows), sum(len(row.rounds) for row in rows)
        ),
        "macro_block_efficiency": mean(block_efficiency([row]) for row in rows),
        # Of trees, levels count instead of nodes: at most one node of a level can be accepted.
        "acceptance_rate": ratio(sum(row.accepted for row in rows), sum(row.depth for row in rows)),
        "mbsu": memory_bound_speed_up(rows),
        "acceptance_by_position": acceptance_by_position(rows),
        "tokens_per_second": throughput(rows),
        "tokens_per_second_p50": median(throughput([row]) for row in rows) if rows else 0.0,
        "speed_up_paired": speed_up(rows, plain),
        "identical": mean(compared) if compared else None,
        "peak_memory_bytes": max((row.peak_memory_bytes for row in rows), default=0),
    }


def ratio(over: float, under: float) -> float:
    """The quotient; 0 if the divisor is 0."""
    return over / under if under else 0.0


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean."""
    numbers = list(values)
    return ratio(sum(numbers), len(numbers))


def block_efficiency(rows: Sequence[AnswerRow]) -> float:
    """Tokens per round over all rounds (micro average; IbED, section 4)."""
    return ratio(sum(row.emitted for row in rows), sum(len(row.rounds) for row in rows))


def memory_bound_speed_up(rows: Sequence[AnswerRow]) -> float:
    """MBSU: tokens over the rounds' costs if reading parameters is all that takes time.

    Of rounds with g drafted tokens it is tau / (1 + g c) for a drafted token's share c of the
    target's parameters (Gagrani et al. 2024).
    """
    costs = sum(
        1 + row.drafted_share * round_.depth * (not round_.by_lookup)
        for row in rows
        for round_ in row.rounds
    )
    return ratio(sum(row.emitted for row in rows), costs)


def acceptance_by_position(rows: Iterable[AnswerRow]) -> list[float]:
    """[gamma] the share of rounds that accepted tokens 1..i, among those that drafted token i.

    In trees: a token of level i.
    """
    rounds = [round_ for row in rows for round_ in row.rounds]
    shares = []
    for i in range(1, max((round_.depth for round_ in rounds), default=0) + 1):
        reached = [round_ for round_ in rounds if round_.depth >= i]
        shares.append(ratio(sum(round_.accepted >= i for round_ in reached), len(reached)))
    return shares


def throughput(rows: Sequence[AnswerRow]) -> float:
    """Tokens per second of decoding over all rows."""
    return ratio(sum(row.emitted for row in rows), sum(row.seconds["decode"] for row in rows))


def pairs(rows: Iterable[AnswerRow], plain: Iterable[AnswerRow]) -> list[Pair]:
    """Each row whose question plain decoding answered too, with that answer."""
    others = {row.key: row for row in plain}
    return [(row, others[row.key]) for row in rows if row.key in others]


def speed_up(rows: Iterable[AnswerRow], plain: Iterable[AnswerRow]) -> float:
    """Throughput over plain decoding's: the mean over the questions that both answered."""
    return mean(ratio(throughput([row]), throughput([other])) for row, other in pairs(rows, plain))
