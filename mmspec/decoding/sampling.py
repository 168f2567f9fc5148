"""Choosing tokens: the argmax under the noise that target and drafts share.

Shape letters: n rows, c candidates, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mmspec.decoding import formulas
from mmspec.decoding.formulas import Array, Top
from mmspec.ground.settings import convert_numbers

LEAST_TEMPERATURE = 1e-6
"""Lower temperatures are greedy: logits divided by them would not be finite."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Temperature, top-k and top-p, applied in transformers' order; temperature 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 0
    """Number of likeliest tokens to keep, ties by lowest id; 0 keeps all."""
    top_p: float = 1.0
    """Only the smallest set of likeliest tokens whose probabilities sum to this is kept."""

    def __post_init__(self) -> None:
        convert_numbers(self, "temperature", "top_k", "top_p")

    @property
    def greedy(self) -> bool:
        """True if every token is the argmax of the logits."""
        return self.temperature < LEAST_TEMPERATURE


GREEDY = Sampling()


@dataclass(frozen=True, slots=True)
class Sampler:
    """Chooses tokens from logits [n, V] on a device; reads no value back.

    `keys` [n, 2] or [1, 2] are the noise keys of the chosen tokens' positions; greedy sampling does
    not read them.
    """

    xp: Any
    """Array namespace as in `mmspec.decoding.formulas`."""
    top: Top
    exponentials: Callable[[Array, Array], Array]
    """Function that computes the noise; see `mmspec.decoding.noise.exponentials`."""
    sampling: Sampling
    ids: Callable[[int], Array]
    """Function from n to the ids 0 to n - 1, in the integer type of the keys."""

    def tokens(self, logits: Array, keys: Array) -> Array:
        """The token [n] chosen in each row."""
        if self.sampling.greedy:
            return self.xp.argmax(logits, axis=-1)
        scores, ids = self.scores(logits, keys)
        best = self.xp.argmax(scores, axis=-1)
        if ids is None:
            return best
        return self.xp.take_along_axis(ids, self.xp.expand_dims(best, axis=-1), axis=-1)[:, 0]

    def children(self, logits: Array, keys: Array, count: int) -> tuple[Array, Array]:
        """The `count` best tokens [n, count] of each row, best first, and the confidence in each.

        They are draws without replacement. The confidence [n, count] in a token is its p / E, or
        its p if sampling is greedy, divided by the sum of these over all tokens.
        """
        scores, ids = self.scores(logits, keys)
        confidence = formulas.softmax(
            self.xp, scores / (1.0 if self.sampling.greedy else self.sampling.temperature)
        )
        confidence, best = self.top(confidence, min(count, scores.shape[-1]))
        if ids is not None:
            best = self.xp.take_along_axis(ids, best, axis=-1)
        return confidence, best

    def scores(self, logits: Array, keys: Array) -> tuple[Array, Array | None]:
        """Scores [n, c] whose argmax is the chosen token, and the ids [n, c] that they belong to.

        Excluded tokens have -inf.  The score is logits - T log E, float32: it orders tokens as p /
        E does, and equals the logits at T = 0.  Ids are None if c = V, where the index is the id.
        With top-k, noise is computed for the k likeliest tokens only.
        """
        xp, sampling = self.xp, self.sampling
        scores, ids = xp.astype(logits, xp.float32), None
        if sampling.greedy:
            return scores, None
        if 0 < sampling.top_k < scores.shape[-1]:
            # Divided before the exponential: a distribution rounded first has no tail to flatten.
            p = formulas.softmax(xp, scores / sampling.temperature)
            ids = self.top(p, sampling.top_k)[1]
            scores = xp.take_along_axis(scores, ids, axis=-1)
        tokens = self.ids(scores.shape[-1]) if ids is None else xp.astype(ids, keys.dtype)
        noisy = scores - sampling.temperature * xp.log(self.exponentials(keys, tokens))
        if sampling.top_p < 1.0:
            p = formulas.softmax(xp, scores / sampling.temperature)
            noisy = xp.where(p >= formulas.nucleus_floor(xp, p, sampling.top_p), noisy, -xp.inf)
        return noisy, ids
