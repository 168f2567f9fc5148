"""How sure a difference between two methods is: a paired bootstrap over samples."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmspec.bench.suite.rows import Row

DRAWS, SEED = 10_000, 0
LEVEL = 0.95
CELLS = 2_000_000
"""Counts drawn at a time: 16 MB."""

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one method's block efficiency from another's, relative to that."""

    samples: int
    value: float
    low: float
    high: float
    """The ends of the interval that holds the truth in LEVEL of all cases."""


def difference(
    rows: Iterable[Row], others: Iterable[Row], draws: int = DRAWS, seed: int = SEED
) -> Difference | None:
    """Compare the pooled tokens per round on the samples that both have.

    A sample is drawn with all its turns and for both methods: what is easy for one is mostly easy
    for the other.  The interval is between percentiles of the resamples (Efron 1979).  None where
    no sample is in both.
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
    """Tokens and rounds of each sample that has any."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row.rounds:
            tokens, rounds = found.get(row.sample, (0, 0))
            found[row.sample] = tokens + row.emitted, rounds + len(row.rounds)
    return found


def _resampled(counts: Counts, draws: int, seed: int) -> Iterable[NDArray[np.float64]]:
    """The relative difference in each resample of `counts` [n, 4], as many as `draws`."""
    generator, size = np.random.default_rng(seed), len(counts)
    at_once = max(CELLS // size, 1)
    for start in range(0, draws, at_once):
        wanted = min(at_once, draws - start)
        times = generator.multinomial(size, np.full(size, 1 / size), size=wanted)
        yield _relative(times @ counts)


def _relative(sums: Counts) -> NDArray[np.float64]:
    """[m] of sums [m, 4]: tokens and rounds of ours, tokens and rounds of theirs."""
    tokens, rounds, other_tokens, other_rounds = sums.T
    quotients: NDArray[np.float64] = (tokens / rounds) / (other_tokens / other_rounds)
    return quotients - 1
