"""Confidence intervals of tokens per round, and of differences: a bootstrap over images."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec_bench.suite.rows import AnswerRow

DRAWS, SEED = 10_000, 0
LEVEL = 0.95

Sums = NDArray[np.int64]
Counts = tuple[int, ...]
"""Tokens and rounds, perhaps of two methods."""


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
    both = [(*ours[name], theirs[name][1]) for name in ours if name in theirs]
    return _interval([(image, own + other) for image, own, other in both], _relative)


def tokens_per_round(rows: Iterable[AnswerRow]) -> Interval:
    """Tokens per round over all rounds; 0 without any."""
    found = _interval([*_by_sample(rows).values()], _quotient)
    return found or Interval(0, 0.0, None, None)


def _interval(
    samples: Sequence[tuple[str, Counts]], value: Callable[[Sums], NDArray[np.float64]]
) -> Interval | None:
    """The value of samples' counts, and percentiles of those of resamples (Efron 1979).

    A resample draws images, each with all samples about it and all turns of all methods, because
    their difficulties correlate.

    samples: the image and counts of each.  value: from sums [m, n] of counts to m values.
    """
    by_image: dict[str, Any] = {}
    for image, counts in samples:
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


def _by_sample(rows: Iterable[AnswerRow]) -> dict[str, tuple[str, Counts]]:
    """The first image of each sample, its name if it has none, with its tokens and rounds."""
    samples: dict[str, tuple[str, Counts]] = {}
    for row in rows:
        if row.rounds:
            _, (tokens, rounds) = samples.get(row.sample, ("", (0, 0)))
            counts = tokens + row.emitted, rounds + len(row.rounds)
            samples[row.sample] = row.first_image or row.sample, counts
    return samples


def _quotient(sums: Sums) -> NDArray[np.float64]:
    """Tokens per round [m] from sums [m, 2]."""
    return sums[:, 0] / sums[:, 1]


def _relative(sums: Sums) -> NDArray[np.float64]:
    """Differences [m] from sums [m, 4]: our tokens and rounds, their tokens and rounds."""
    return _quotient(sums[:, :2]) / _quotient(sums[:, 2:]) - 1
