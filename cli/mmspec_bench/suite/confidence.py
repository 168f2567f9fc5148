"""Confidence intervals of tokens per round, and of differences: a bootstrap over images."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec_bench.suite.rows import AnswerRow

DRAWS, SEED = 10_000, 0
LEVEL = 0.95

Counts = NDArray[np.int64]
Formula = Callable[[Counts], NDArray[np.float64]]
"""From sums [m, n] of counts to m values."""


class Interval(NamedTuple):
    """A value computed from samples, and the ends between which the true one is."""

    samples: int
    value: float
    low: float | None
    high: float | None
    """Ends of the interval that has the true value with probability LEVEL; None for one image."""


def difference(rows: Iterable[AnswerRow], others: Iterable[AnswerRow]) -> Interval | None:
    """The relative difference in tokens per round on samples that both answered; None if none."""
    rows = list(rows)
    ours, theirs = _by_sample(rows), _by_sample(others)
    shared = [sample for sample in ours if sample in theirs]
    if not shared:
        return None
    counts = np.array([[*ours[s], *theirs[s]] for s in shared])
    return _interval(counts, _images(rows, shared), _relative)


def tokens_per_round(rows: Iterable[AnswerRow]) -> Interval:
    """Tokens per round over all rounds; 0 without any."""
    rows = list(rows)
    samples = _by_sample(rows)
    if not samples:
        return Interval(0, 0.0, None, None)
    counts, images = np.array([*samples.values()]), _images(rows, [*samples])
    return _interval(counts, images, lambda sums: sums[:, 0] / sums[:, 1])


def _interval(counts: Counts, images: Sequence[str], value: Formula) -> Interval:
    """The value of counts [samples, n], and percentiles of those of resamples (Efron 1979).

    A resample draws images, each with all samples about it and all turns of all methods, because
    their difficulties correlate.  A sample without images is drawn alone.
    """
    samples, counts = len(counts), _by_image(counts, images)
    [whole] = value(counts.sum(axis=0, keepdims=True))
    if len(counts) == 1:
        return Interval(samples, float(whole), None, None)
    even = np.full(len(counts), 1 / len(counts))
    times = np.random.default_rng(SEED).multinomial(len(counts), even, size=DRAWS)
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(value(times @ counts), [tail, 100 - tail])
    return Interval(samples, float(whole), float(low), float(high))


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
    """Sum counts [samples, n] over the samples of each image."""
    _, image_of = np.unique(images, return_inverse=True)
    sums = np.zeros((image_of.max() + 1, counts.shape[1]), np.int64)
    np.add.at(sums, image_of, counts)
    return sums


def _relative(sums: Counts) -> NDArray[np.float64]:
    """Differences [m] from sums [m, 4]: our tokens and rounds, their tokens and rounds."""
    tokens, rounds, other_tokens, other_rounds = sums.T
    quotients: NDArray[np.float64] = (tokens / rounds) / (other_tokens / other_rounds)
    return quotients - 1
