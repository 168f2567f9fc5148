"""Confidence intervals of differences between two methods: a paired bootstrap over images."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec_bench.suite.rows import AnswerRow

DRAWS, SEED = 10_000, 0
LEVEL = 0.95

Counts = NDArray[np.int64]


class Difference(NamedTuple):
    """The relative difference in block efficiency between two methods."""

    samples: int
    value: float
    low: float | None
    high: float | None
    """Ends of the interval that has the true value with probability LEVEL; None for one image."""


def difference(
    rows: Iterable[AnswerRow], others: Iterable[AnswerRow], draws: int = DRAWS, seed: int = SEED
) -> Difference | None:
    """Compare tokens per round over the samples that both methods answered; None without any.

    A resample draws images, each with all samples about it and all turns of both methods, because
    their difficulties correlate.  A sample without images is drawn alone.  The interval is between
    percentiles of the resamples (Efron 1979).
    """
    rows = list(rows)
    ours, theirs = _by_sample(rows), _by_sample(others)
    shared = [sample for sample in ours if sample in theirs]
    if not shared:
        return None
    counts = _by_image(np.array([[*ours[s], *theirs[s]] for s in shared]), _images(rows, shared))
    [value] = _relative(counts.sum(axis=0, keepdims=True))
    if len(counts) == 1:
        return Difference(len(shared), float(value), None, None)
    even = np.full(len(counts), 1 / len(counts))
    times = np.random.default_rng(seed).multinomial(len(counts), even, size=draws)
    resampled = _relative(times @ counts)
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Difference(len(shared), float(value), float(low), float(high))


def _by_sample(rows: Iterable[AnswerRow]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row.rounds:
            tokens, rounds = counts.get(row.sample, (0, 0))
            counts[row.sample] = tokens + row.emitted, rounds + len(row.rounds)
    return counts


def _images(rows: Iterable[AnswerRow], samples: Sequence[str]) -> list[str]:
    """The first image of each sample, or its name if it has none."""
    images = {row.sample: row.first_image for row in rows}
    return [images[sample] or sample for sample in samples]


def _by_image(counts: Counts, images: Sequence[str]) -> Counts:
    """Sum counts [samples, 4] over the samples of each image."""
    _, image_of = np.unique(images, return_inverse=True)
    sums = np.zeros((image_of.max() + 1, counts.shape[1]), np.int64)
    np.add.at(sums, image_of, counts)
    return sums


def _relative(sums: Counts) -> NDArray[np.float64]:
    """Differences [m] from sums [m, 4]: our tokens and rounds, their tokens and rounds."""
    tokens, rounds, other_tokens, other_rounds = sums.T
    quotients: NDArray[np.float64] = (tokens / rounds) / (other_tokens / other_rounds)
    return quotients - 1
