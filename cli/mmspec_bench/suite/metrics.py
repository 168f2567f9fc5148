"""Measures over the rows of one method, defined in docs/measuring.md; 0 if nothing was counted.

`plain` are the rows of plain decoding.  Seconds are wall-clock.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec_bench.suite.rows import AnswerRow

DRAWS, SEED = 10_000, 0
LEVEL = 0.95

Sums = NDArray[np.int64]
Summary = dict[str, Any]
"""`method` and all its measures by name, JSON-serializable."""


def summarise(rows: Sequence[AnswerRow], plain: Sequence[AnswerRow]) -> Summary:
    """All measures of one method's rows; speed-ups over the questions that `plain` answered too."""
    comparisons = [row.identical for row in rows if row.identical is not None]
    rounds = [round_ for row in rows for round_ in row.rounds]
    accepted = sum(round_.accepted for round_ in rounds)
    return {
        "method": rows[0].method if rows else "",
        "answers": len(rows),
        "rounds": len(rounds),
        "tokens": sum(round_.emitted for round_ in rounds),
        "block_efficiency": block_efficiency(rows),
        "nodes_per_round": ratio(sum(round_.drafted for round_ in rounds), len(rounds)),
        "macro_block_efficiency": mean(block_efficiency([row]) for row in rows),
        # Of trees, levels count instead of nodes: at most one node of a level can be accepted.
        "acceptance_rate": ratio(accepted, sum(round_.depth for round_ in rounds)),
        "mbsu": memory_bound_speed_up(rows),
        "acceptance_by_position": acceptance_by_position(rows),
        "tokens_per_second": throughput(rows),
        "tokens_per_second_p50": median(throughput([row]) for row in rows) if rows else 0.0,
        "speed_up_paired": speed_up(rows, plain),
        "identical": mean(comparisons) if comparisons else None,
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
    deepest = max((round_.depth for round_ in rounds), default=0)
    return [
        mean(round_.accepted >= i for round_ in rounds if round_.depth >= i)
        for i in range(1, deepest + 1)
    ]


def throughput(rows: Sequence[AnswerRow]) -> float:
    """Tokens per second of decoding over all rows."""
    return ratio(sum(row.emitted for row in rows), sum(row.seconds["decode"] for row in rows))


def pairs(
    rows: Iterable[AnswerRow], plain: Iterable[AnswerRow]
) -> list[tuple[AnswerRow, AnswerRow]]:
    """Each row whose question plain decoding answered too, with that answer."""
    answers = {row.key: row for row in plain}
    return [(row, answers[row.key]) for row in rows if row.key in answers]


def speed_up(rows: Iterable[AnswerRow], plain: Iterable[AnswerRow]) -> float:
    """Throughput over plain decoding's: the mean over the questions that both answered."""
    return mean(ratio(throughput([row]), throughput([other])) for row, other in pairs(rows, plain))


class Interval(NamedTuple):
    """A value computed from samples, and the ends between which the true one is."""

    samples: int
    value: float
    low: float | None
    high: float | None
    """Ends of the interval that has the true value with probability LEVEL; None for one image."""


def difference(rows: Iterable[AnswerRow], others: Iterable[AnswerRow]) -> Interval | None:
    """The relative difference in tokens per round on samples that both answered; None if none."""
    ours, theirs = _by_sample(rows), _by_sample(others)
    samples = [(*ours[name], *theirs[name][1:]) for name in ours if name in theirs]
    return _interval(samples, _relative)


def tokens_per_round(rows: Iterable[AnswerRow]) -> Interval:
    """Tokens per round over all rounds; 0 without any."""
    interval = _interval([*_by_sample(rows).values()], _quotient)
    return interval or Interval(0, 0.0, None, None)


def _interval(
    samples: Sequence[tuple[Any, ...]], value: Callable[[Sums], NDArray[np.float64]]
) -> Interval | None:
    """The value of samples' counts, and percentiles of those of resamples (Efron 1979).

    A resample draws images, each with all samples about it and all turns of all methods, because
    their difficulties correlate.

    samples: the image and n counts of each.  value: from sums [m, n] of counts to m values.
    """
    by_image: dict[str, Any] = {}
    for image, *counts in samples:
        by_image[image] = by_image.get(image, 0) + np.array(counts)
    if not by_image:
        return None
    images = np.array([by_image[image] for image in sorted(by_image)])
    [whole] = value(images.sum(axis=0, keepdims=True))
    if len(images) == 1:
        return Interval(len(samples), float(whole), None, None)
    even = np.full(len(images), 1 / len(images))
    times = np.random.default_rng(SEED).multinomial(len(images), even, size=DRAWS)
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(value(times @ images), [tail, 100 - tail])
    return Interval(len(samples), float(whole), float(low), float(high))


def _by_sample(rows: Iterable[AnswerRow]) -> dict[str, tuple[str, int, int]]:
    """The first image of each sample, its name if it has none, with its tokens and rounds."""
    samples: dict[str, tuple[str, int, int]] = {}
    for row in rows:
        if row.rounds:
            _, tokens, rounds = samples.get(row.sample, ("", 0, 0))
            counts = tokens + row.emitted, rounds + len(row.rounds)
            samples[row.sample] = row.first_image or row.sample, *counts
    return samples


def _quotient(sums: Sums) -> NDArray[np.float64]:
    """Tokens per round [m] from sums [m, 2]."""
    return sums[:, 0] / sums[:, 1]


def _relative(sums: Sums) -> NDArray[np.float64]:
    """Differences [m] from sums [m, 4]: our tokens and rounds, their tokens and rounds."""
    return _quotient(sums[:, :2]) / _quotient(sums[:, 2:]) - 1
