"""Measures over rows, each defined in docs/measuring.md; all are 0 where nothing was counted.

`rows` are of one method.  `plain` are the rows of plain decoding; a pair is two rows with the same
sample and turn.  Seconds are wall-clock.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from mmspec.bench.suite.rows import Row

STAGES = ("vision", "caption", "prefill", "draft", "verify", "loop")
"""Together they are an answer; `loop` is what decoding took outside `draft` and `verify`."""

Pair = tuple[Row, Row]
Seconds = Callable[[Row], float]


def ratio(over: float, under: float) -> float:
    """A quotient, 0 where there is nothing to divide by."""
    return over / under if under else 0.0


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean."""
    every = list(values)
    return ratio(sum(every), len(every))


def pairs(rows: Iterable[Row], plain: Iterable[Row]) -> list[Pair]:
    """Each row that plain decoding answered too, with that answer."""
    others = {row.key: row for row in plain}
    return [(row, others[row.key]) for row in rows if row.key in others]


def block_efficiency(rows: Iterable[Row], *, bonus: bool = True) -> float:
    """Tokens per target forward, all rounds pooled (micro; IbED, section 4).

    bonus: count the target's own token of each round; without it, accepted tokens alone.
    """
    every = list(rows)
    tokens = sum(row.emitted if bonus else row.accepted for row in every)
    return ratio(tokens, sum(len(row.rounds) for row in every))


def macro_block_efficiency(rows: Iterable[Row], *, bonus: bool = True) -> float:
    """The mean of the answers' own block efficiencies."""
    return mean(block_efficiency([row], bonus=bonus) for row in rows if row.rounds)


def acceptance_rate(rows: Iterable[Row]) -> float:
    """Accepted over drafted tokens; of trees, over their levels."""
    every = list(rows)
    return ratio(sum(row.accepted for row in every), sum(row.depth for row in every))


def acceptance_by_position(rows: Iterable[Row]) -> list[float]:
    """[gamma] of the rounds that drafted a token i, the share that kept tokens 1..i.

    Of a tree: a token of level i.
    """
    rounds = [each for row in rows for each in row.rounds]
    longest = max((each.depth for each in rounds), default=0)
    return [
        ratio(
            sum(each.accepted >= i for each in rounds if each.depth >= i),
            sum(each.depth >= i for each in rounds),
        )
        for i in range(1, longest + 1)
    ]


def conditional_acceptance_by_position(rows: Iterable[Row]) -> list[float]:
    """[gamma] of the rounds that kept all before a drafted token i, the share that kept it."""
    rounds = [each for row in rows for each in row.rounds]
    longest = max((each.depth for each in rounds), default=0)
    reached = (
        [each for each in rounds if each.depth >= i and each.accepted >= i - 1]
        for i in range(1, longest + 1)
    )
    return [
        ratio(sum(each.accepted >= i for each in some), len(some))
        for i, some in enumerate(reached, start=1)
    ]


def decode_seconds(row: Row) -> float:
    """From the end of the prefill to the last token."""
    return row.seconds["decode"]


def total_seconds(row: Row) -> float:
    """From the question to the last token: vision, captions and prefill with decoding."""
    return row.seconds["total"]


def throughput(rows: Iterable[Row], seconds: Seconds = decode_seconds) -> float:
    """All tokens over all seconds."""
    every = list(rows)
    return ratio(sum(row.emitted for row in every), sum(map(seconds, every)))


def global_speed_up(paired: Sequence[Pair], seconds: Seconds = decode_seconds) -> float:
    """The quotient of two throughputs over the same questions: long answers count for more."""
    ours, plain = ([pair[side] for pair in paired] for side in (0, 1))
    return ratio(throughput(ours, seconds), throughput(plain, seconds))


def paired_speed_ups(paired: Iterable[Pair], seconds: Seconds = decode_seconds) -> list[float]:
    """For each question, the quotient of the two answers' tokens per second."""
    return [
        ratio(throughput([row], seconds), throughput([plain], seconds)) for row, plain in paired
    ]


def tokens_per_second(rows: Iterable[Row]) -> list[float]:
    """Tokens over decode seconds, answer by answer."""
    return [throughput([row]) for row in rows if row.rounds]


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` % of the values do not exceed, interpolated between neighbours."""
    return float(np.percentile(values, percent)) if len(values) else 0.0


def reached_by(values: Sequence[float], percent: float) -> float:
    """The value that `percent` % of the values reach: of speeds, p95 is the slow end."""
    return percentile(values, 100 - percent)


def first_token_seconds(rows: Iterable[Row]) -> list[float]:
    """Vision, caption, prefill and the first round, answer by answer."""
    return [row.seconds["first_token"] for row in rows if row.rounds]


def stage_seconds(rows: Iterable[Row]) -> dict[str, float]:
    """Mean seconds an answer spends in each of STAGES."""
    every = list(rows)
    measured = {name: mean(row.seconds[name] for row in every) for name in (*STAGES[:-1], "decode")}
    inside = measured["draft"] + measured["verify"]
    return {**{name: measured[name] for name in STAGES[:-1]}, "loop": measured["decode"] - inside}


def identical_rate(rows: Iterable[Row]) -> float | None:
    """Of the answers compared with plain decoding's, the share that are the same tokens.

    None where none was compared.
    """
    compared = [row.identical for row in rows if row.identical is not None]
    return sum(compared) / len(compared) if compared else None


def peak_memory_bytes(rows: Iterable[Row]) -> int:
    """The most of any answer."""
    return max((row.peak_memory_bytes for row in rows), default=0)


def facts_right(rows: Iterable[Row]) -> tuple[int, int]:
    """Facts right, facts asked for."""
    told = [row.facts for row in rows if row.facts]
    return sum(each["right"] for each in told), sum(each["asked"] for each in told)


def accepted_positions(row: Row) -> list[int]:
    """Places in the answer, from 0, of the tokens that were drafted and kept."""
    starts = np.cumsum([0, *(each.emitted for each in row.rounds)])
    return [
        int(start) + i
        for start, each in zip(starts, row.rounds, strict=False)
        for i in range(each.accepted)
    ]


def accepted_over_time(rows: Iterable[Row], parts: int) -> list[float]:
    """[parts] of the tokens in each equal part of their answers, the share drafted and kept.

    IbED, figure 11.
    """
    kept, every = np.zeros(parts), np.zeros(parts)
    for row in rows:
        part = np.arange(row.emitted) * parts // max(row.emitted, 1)
        np.add.at(every, part, 1)
        np.add.at(kept, part[accepted_positions(row)], 1)
    return [ratio(float(some), float(all_)) for some, all_ in zip(kept, every, strict=True)]


def weights_by_round(rows: Iterable[Row], branch: str) -> list[float]:
    """[rounds] the mean weight of the branch with this letter over the answers that got so far.

    Until fewer than a tenth of the answers are left; a branch that a row lacks weighs nothing.
    """
    answers = [_weights(row, branch) for row in rows if row.weights]
    longest = max(map(len, answers), default=0)
    left = ([each[i] for each in answers if i < len(each)] for i in range(longest))
    return [mean(some) for some in left if 10 * len(some) >= len(answers)]


def _weights(row: Row, branch: str) -> list[float]:
    columns = [i for i, name in enumerate(row.branches) if name.startswith(branch)]
    # A round at the end of the budget may draft nothing, and then weighs nothing.
    return [sum(each[i] for i in columns) for each in row.weights or [] if each]
