"""Weights of the branches that follow what the target says (TABED).

The target's probabilities at a verified token show how well any mixture of the branches would have
foretold it.  Scores are sums over tokens, so a round costs what its own tokens cost, however long
the answer: one vector per candidate mixture is kept, or one per token of the window.  All of it
stays on the backend's device; only array operations are enqueued here.

Shape letters: R branches, k drafted tokens, n observed ones, G candidate mixtures, V vocabulary.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from mmspec import maths
from mmspec.errors import UsageError, choice
from mmspec.maths import Array

STEPS = 10
"""Steps from 0 to 1 of a weight on the lattice."""

RULES = ("lattice", "kl", "tv", "accepted")


@dataclass(frozen=True, slots=True)
class Adaptation:
    """How weights are fitted to the observed tokens; raises UsageError for what is unknown.

    rule: 'lattice' takes the mixture, weights in steps of 0.1, whose argmax was the target's most
    often, and of several the one with the least cross-entropy.  The others score each branch alone
    and share the weight out: 'kl' and 'tv' by one over the divergence KL(p, q) or the distance
    |p - q| summed over tokens, 'accepted' by how often its argmax was the target's.
    """

    rule: str = "lattice"
    window: int = 0
    """How many of the last tokens count; 0 counts all."""
    carry: bool = False
    """Whether an answer starts from what earlier answers of the conversation have shown."""

    def __post_init__(self) -> None:
        """Refuse an unknown rule and a negative window."""
        if self.rule not in RULES:
            raise choice("adaptive rule", self.rule, RULES)
        if self.window < 0:
            raise UsageError(f"--adaptive-window {self.window}: give tokens, or 0 for all")

    def candidates(self, branches: int) -> list[tuple[float, ...]]:
        """The mixtures [G, R] that are scored."""
        if self.rule == "lattice":
            return lattice(branches)
        return [tuple(float(row == at) for at in range(branches)) for row in range(branches)]


def lattice(branches: int) -> list[tuple[float, ...]]:
    """All weights in steps of 0.1 that sum to one, the most even first: ties go to the first."""
    counts = product(range(STEPS + 1), repeat=branches)
    points = [point for point in counts if sum(point) == STEPS]
    points.sort(key=lambda point: (sum(n * n for n in point), [-n for n in point]))
    return [tuple(n / STEPS for n in point) for point in points]


@dataclass(slots=True, eq=False)
class Evidence:
    """What one draft will tell of its branches, on the device."""

    weights: Array
    """[R] the mixture it was drafted from."""
    q: Array
    """[k, R, V] what each branch alone said."""
    logits: Array | None = None
    """[k, V] of the target at the same places, float32; left here by the target that verifies."""


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """The scores of every candidate mixture, on one device; never changed, always replaced."""

    xp: Any
    adaptation: Adaptation
    candidates: Array
    """[G, R]"""
    top: maths.Top
    scores: Array | None = None
    """[1, 2, G] sums of `maths.score`, or [n, 2, G] of the tokens in the window."""
    tokens: int = 0
    """n, how many tokens `scores` holds."""
    unread: tuple[Evidence, int] | None = None
    """The last round and how many of its tokens count; scored when weights are wanted."""

    def forgotten(self) -> "Tally":
        """Nothing observed."""
        return Tally(self.xp, self.adaptation, self.candidates, self.top)

    def noted(self, evidence: Evidence | None, tokens: int) -> "Tally":
        """Observe the first `tokens` places of a draft, if the target has verified it.

        Every token appended to the answer stands at a place that both models saw from the same
        past: the accepted ones and the one in place of the rejected.  A token after k acceptances
        has no q and does not count.
        """
        if evidence is None or evidence.logits is None:
            return self
        return replace(self, unread=(evidence, min(tokens, evidence.q.shape[0])))

    def settled(self) -> "Tally":
        """Score what is unread."""
        if self.unread is None:
            return self
        evidence, count = self.unread
        scores = self._scored(evidence, count)
        if self.scores is not None:
            scores = self.xp.concat([self.scores, scores], axis=0)
        window, tokens = self.adaptation.window, self.tokens + count
        if window:
            return replace(self, scores=scores[-window:], tokens=min(tokens, window), unread=None)
        total = self.xp.sum(scores, axis=0, keepdims=True)
        return replace(self, scores=total, tokens=tokens, unread=None)

    def _scored(self, evidence: Evidence, count: int) -> Array:
        assert evidence.logits is not None
        p = maths.softmax(self.xp, evidence.logits[:count])
        distance = maths.variation if self.adaptation.rule == "tv" else maths.divergence
        return maths.score(self.xp, p, evidence.q[:count], self.candidates, distance, self.top)

    def weights(self, given: Array) -> Array:
        """The weights [R] to draft with: `given` until something has been observed.

        Branches whose given weight is zero stay out.
        """
        if self.scores is None:
            return given
        agreed, far = self.xp.sum(self.scores, axis=0)
        slack = maths.TIE * self.tokens
        if self.adaptation.rule == "lattice":
            return best(self.xp, agreed, far, self.candidates, given, slack)
        if self.adaptation.rule == "accepted":
            return shared(self.xp, agreed, given)
        return shared(self.xp, 1 / self.xp.maximum(far, slack + self.xp.zeros_like(far)), given)


def best(
    xp: Any, agreed: Array, far: Array, candidates: Array, given: Array, slack: float
) -> Array:
    """The candidate [R] that agreed most; of several the nearest, up to `slack` the first.

    agreed, far: [G].  Mixtures with a weight on a branch that is given none are left out.
    """
    barred = candidates @ xp.where(given > 0, xp.zeros_like(given), xp.ones_like(given))
    agreed = xp.where(barred > 0, -1.0, agreed)
    far = xp.where(agreed == xp.max(agreed), far, float("inf"))
    near = xp.where(far <= xp.min(far) + slack, xp.ones_like(far), xp.zeros_like(far))
    # The array API's argmax is the first of equals.
    return xp.take(candidates, xp.expand_dims(xp.argmax(near, axis=-1), axis=0), axis=0)[0]


def shared(xp: Any, merit: Array, given: Array) -> Array:
    """Weights [R] in proportion to `merit` [R], none for a branch that is given none.

    Where all merit is zero, the given weights.
    """
    merit = xp.where(given > 0, merit, xp.zeros_like(merit))
    total = xp.sum(merit)
    return xp.where(total > 0, merit / xp.where(total > 0, total, xp.ones_like(total)), given)
