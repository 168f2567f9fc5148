"""Log-probabilities of an answer's tokens, and of the likeliest tokens at their places.

They are the model's own, before temperature, top-k and top-p.

Shape letters: m tokens, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A token's log-probability, and the likeliest tokens with theirs, likeliest first."""

    token: int
    logprob: float
    likeliest: tuple[tuple[int, float], ...] = ()


def likelihoods(
    logits: NDArray[np.float32], tokens: Sequence[int], count: int
) -> tuple[Likelihood, ...]:
    """One entry for each of `tokens`, whose logits [m, V] are given, with `count` likeliest."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    logprobs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    rows = zip(tokens, logprobs, strict=True)
    return tuple(
        Likelihood(token, float(row[token]), _likeliest(row, count)) for token, row in rows
    )


def _likeliest(row: NDArray[np.float64], count: int) -> tuple[tuple[int, float], ...]:
    ids = np.argsort(-row, kind="stable")[:count]
    return tuple((int(id), float(row[id])) for id in ids)
