"""Confidence intervals of differences between two methods: a paired bootstrap over samples."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec_bench.suite.rows import Row

DRAWS, SEED = 10_000, 0
LEVEL = 0.95

Counts = NDArray[np.int64]


class Difference(NamedTuple):
    """The relative difference in block efficiency between two methods."""

    samples: int
    value: float
    low: float
    high: float
    """Ends of the interval that contains the true value with probability LEVEL."""


def difference(
    rows: Iterable[Row], others: Iterable[Row], draws: int = DRAWS, seed: int = SEED
) -> Difference | None:
    """Compare tokens per round over the samples that both methods answered; None without any.

    A resample draws whole samples, with all turns of both methods, because their difficulties
    correlate.  The interval is between percentiles of the resamples (Efron 1979).
    """
    ours, theirs = _by_sample(rows), _by_sample(others)
    shared = [sample for sample in ours if sample in theirs]
    if not shared:
        return None
    counts = np.array([[*ours[sample], *theirs[sample]] for sample in shared])
    even = np.full(len(shared), 1 / len(shared))
    times = np.random.default_rng(seed).multinomial(len(shared), even, size=draws)
    resampled = _relative(times @ counts)
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(resampled, [tail, 100 - tail])
    [value] = _relative(counts.sum(axis=0, keepdims=True))
    return Difference(len(shared), float(value), float(low), float(high))


def _by_sample(rows: Iterable[Row]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row.rounds:
            tokens, rounds = counts.get(row.sample, (0, 0))
            counts[row.sample] = tokens + row.emitted, rounds + len(row.rounds)
    return counts


def _relative(sums: Counts) -> NDArray[np.float64]:
    """Differences [m] from sums [m, 4]: our tokens and rounds, their tokens and rounds."""
    tokens, rounds, other_tokens, other_rounds = sums.T
    quotients: NDArray[np.float64] = (tokens / rounds) / (other_tokens / other_rounds)
    return quotients - 1
