"""Branch weights that are fitted to the target's output during an answer (TABED).

A branch is one view of the prompt in the draft's batch. The target's probabilities at a verified
token show how well any mixture of the branches would have predicted it. A token gives each
candidate mixture two scores: agreement with the target's choice, and distance from the target's
probabilities. Only their sums over tokens are stored, so that a round costs the same however long
the answer is; with a window, the scores of its tokens. All arrays stay on the backend's device;
this module only enqueues operations.

Shape letters: R branches, k drafted tokens, n observed ones, E positions at which the branches have
probabilities, G candidate mixtures, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from mmspec.decoding import formulas
from mmspec.decoding.formulas import Array
from mmspec.ground.errors import UsageError, choice

STEPS = 10
"""Number of equal steps from 0 to 1 in the weights on the lattice."""

RULES = ("lattice", "kl", "tv", "accepted")


@dataclass(frozen=True, slots=True)
class Adaptation:
    """How weights are fitted to observed tokens; raises UsageError for an unknown rule.

    rule: 'lattice' takes the mixture, weights in steps of 0.1, whose argmax agreed with the
    target's most often; ties go to the least KL divergence.  The other rules score each branch
    alone, from the target's probabilities p and its own q. Its weight is proportional to
    1 / KL(p, q) for 'kl', to 1 / |p - q| for 'tv', both summed over tokens, and to the number of
    tokens on which its argmax was the target's for 'accepted'.
    """

    rule: str = "lattice"
    window: int = 0
    """Number of latest tokens that are scored; 0 scores all tokens of the answer."""
    carry: bool = False
    """True if the scores of one answer carry over to the next answer of the conversation."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise choice("adaptive rule", self.rule, RULES)
        if self.window < 0:
            raise UsageError(f"`window={self.window}`: give tokens, or 0 for all")

    def candidates(self, branches: int) -> list[tuple[float, ...]]:
        """The weights [G, R] of the candidate mixtures."""
        if self.rule == "lattice":
            return lattice(branches)
        return [tuple(float(row == at) for at in range(branches)) for row in range(branches)]


def lattice(branches: int) -> list[tuple[float, ...]]:
    """All weights in steps of 0.1 that sum to one, the most even first: the first wins ties."""
    counts = product(range(STEPS + 1), repeat=branches)
    points = [point for point in counts if sum(point) == STEPS]
    points.sort(key=lambda point: (sum(n * n for n in point), [-n for n in point]))
    return [tuple(n / STEPS for n in point) for point in points]


@dataclass(frozen=True, slots=True, eq=False)
class BranchOutputs:
    """The branches' probabilities for a draft, and the branches' weights; on the device."""

    weights: Array
    """[R] weight of each branch in the mixture."""
    q: Array
    """[E, R, V] each branch's probabilities; of a chain, at its k positions."""
    places: Array | None = None
    """As `Evidence.places`, of a tree."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Probabilities of branches and target, on the device."""

    q: Array
    """[E, R, V] each branch's probabilities."""
    logits: Array
    """[k + 1, V] the target's logits after the root and after each drafted token, float32."""
    places: Sequence[int] | None = None
    """[k + 1] where in `q` the probabilities after the root and after each node are, -1 where there
    are none; None for a chain, whose tokens have them in turn."""

    def along(
        self, xp: Any, integers: Callable[[Sequence[int]], Array], path: Sequence[int]
    ) -> "Evidence":
        """The evidence after the root and after the nodes of `path`, in turn, as of a chain."""
        if self.places is None:
            return self
        nodes = [node for node in (0, *(node + 1 for node in path)) if self.places[node] >= 0]
        q = xp.take(self.q, integers([self.places[node] for node in nodes]), axis=0)
        return Evidence(q, xp.take(self.logits, integers(nodes), axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """The scores of all candidate mixtures, on one device; immutable."""

    xp: Any
    adaptation: Adaptation
    candidates: Array
    """[G, R] the weights of the candidate mixtures."""
    top: formulas.Top
    scores: Array | None = None
    """[1, 2, G] sums over tokens of `formulas.score`; with a window [n, 2, G], a row per token."""
    tokens: int = 0
    """n, the number of tokens in `scores`."""
    unread: tuple[Evidence, int] | None = None
    """The last round's evidence and how many of its tokens count; `settled` scores it."""

    def forgotten(self) -> "Tally":
        """A tally with the same candidates and no scores."""
        return Tally(self.xp, self.adaptation, self.candidates, self.top)

    def noted(self, evidence: Evidence | None, tokens: int) -> "Tally":
        """A tally that also counts the first `tokens` positions of `evidence`, if there is any.

        An accepted token counts, and so does the token that replaces a rejected one: draft and
        target saw the same past there. The target's token after k accepted tokens does not count:
        the draft has no probabilities q for it.
        """
        if evidence is None:
            return self
        return replace(self, unread=(evidence, min(tokens, evidence.q.shape[0])))

    def settled(self) -> "Tally":
        """A tally in which the evidence of the last round is scored."""
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
        p = formulas.softmax(self.xp, evidence.logits[:count])
        distance = formulas.variation if self.adaptation.rule == "tv" else formulas.divergence
        return formulas.score(self.xp, p, evidence.q[:count], self.candidates, distance, self.top)

    def weights(self, start: Array) -> Array:
        """The branch weights [R] to draft with: `start` until a token is observed.

        Branches with weight zero in `start` keep weight zero.
        """
        if self.scores is None:
            return start
        agreed, far = self.xp.sum(self.scores, axis=0)
        slack = formulas.TIE * self.tokens
        if self.adaptation.rule == "lattice":
            return best(self.xp, agreed, far, self.candidates, start, slack)
        if self.adaptation.rule == "accepted":
            return shared(self.xp, agreed, start)
        return shared(self.xp, 1 / self.xp.maximum(far, slack + self.xp.zeros_like(far)), start)


def best(
    xp: Any, agreed: Array, far: Array, candidates: Array, start: Array, slack: float
) -> Array:
    """The candidate [R] with the most agreements; ties go to the smallest distance, then the first.

    agreed: number of agreements [G] with the target. far: distances [G] from it; two within `slack`
    are a tie. Candidates that use a branch with weight zero in `start` are left out.
    """
    barred = candidates @ xp.where(start > 0, xp.zeros_like(start), xp.ones_like(start))
    agreed = xp.where(barred > 0, -1.0, agreed)
    far = xp.where(agreed == xp.max(agreed), far, float("inf"))
    near = xp.where(far <= xp.min(far) + slack, xp.ones_like(far), xp.zeros_like(far))
    # The array API's argmax returns the first of several equal values.
    return xp.take(candidates, xp.expand_dims(xp.argmax(near, axis=-1), axis=0), axis=0)[0]


def shared(xp: Any, merit: Array, start: Array) -> Array:
    """Branch weights [R] in proportion to `merit` [R]; zero where `start` is zero.

    Returns `start` if every merit is zero.
    """
    merit = xp.where(start > 0, merit, xp.zeros_like(merit))
    total = xp.sum(merit)
    return xp.where(total > 0, merit / xp.where(total > 0, total, xp.ones_like(total)), start)
