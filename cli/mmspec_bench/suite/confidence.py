"""Confidence intervals of differences between two methods: a paired bootstrap over samples."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec_bench.suite.rows import Row

DRAWS, SEED = 10_000, 0
LEVEL = 0.95
CELLS = 2_000_000
"""Number of counts that are resampled at a time; they take 16 MB."""

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
    resampled = np.concatenate(list(_resampled(counts, draws, seed)))
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


def _resampled(counts: Counts, draws: int, seed: int) -> Iterable[NDArray[np.float64]]:
    """The relative differences of `draws` resamples of the samples' counts [n, 4], in chunks."""
    generator, size = np.random.default_rng(seed), len(counts)
    chunk = max(CELLS // size, 1)
    for start in range(0, draws, chunk):
        num = min(chunk, draws - start)
        times = generator.multinomial(size, np.full(size, 1 / size), size=num)
        yield _relative(times @ counts)


def _relative(sums: Counts) -> NDArray[np.float64]:
    """Differences [m] from sums [m, 4]: our tokens and rounds, their tokens and rounds."""
    tokens, rounds, other_tokens, other_rounds = sums.T
    quotients: NDArray[np.float64] = (tokens / rounds) / (other_tokens / other_rounds)
    return quotients - 1
