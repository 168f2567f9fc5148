"""Drafts with a draft model that reads several views of the prompt: their weighted mixture.

A branch is one view as a row of the draft's batch. Its weight is fixed, or fitted to the target's
output during an answer (TABED): the target's probabilities at a verified token show how well any
mixture of the branches would have predicted it. A token gives each candidate mixture two scores:
agreement with the target's choice, and distance from the target's probabilities. Only their sums
over tokens are stored, so that a round costs the same however long the answer is.

All arrays stay on the backend's device; this module only enqueues operations.

Shape letters: R branches, m tokens of a round, E positions at which the branches have
probabilities, G candidate mixtures, n drafted nodes, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Generic

from mmspec.decoding import formulas
from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Branches, Segment
from mmspec.decoding.draft import DeviceDraft, Plan
from mmspec.decoding.formulas import Array
from mmspec.decoding.framework import Framework
from mmspec.decoding.noise import Noise
from mmspec.ground.arrays import A

STEPS = 10
"""Number of equal steps from 0 to 1 in the weights on the lattice."""


def lattice(branches: int) -> list[tuple[float, ...]]:
    """All weights in steps of 0.1 that sum to one, the most even first: the first wins ties."""
    counts = product(range(STEPS + 1), repeat=branches)
    points = [point for point in counts if sum(point) == STEPS]
    points.sort(key=lambda point: (sum(n * n for n in point), [-n for n in point]))
    return [tuple(n / STEPS for n in point) for point in points]


@dataclass(frozen=True, slots=True, eq=False)
class Tally(Generic[A]):
    """The scores of all mixtures on the lattice, on one device; immutable."""

    framework: Framework[A]
    candidates: A
    """[G, R] the weights of the candidate mixtures."""
    scores: Array = None
    """[2, G] sums over tokens of `formulas.score`; None before the first token."""
    tokens: Array = 0
    """The number of tokens in `scores`."""

    @classmethod
    def of(cls, framework: Framework[A], branches: int) -> "Tally[A]":
        """A tally without scores."""
        return cls(framework, framework.floats(lattice(branches)))

    def without_scores(self) -> "Tally[A]":
        """The tally as it was before the first token."""
        return replace(self, scores=None, tokens=0)

    def after(self, draft: DeviceDraft[A], logits: A, path: Sequence[int]) -> "Tally[A]":
        """A tally that also counts the tokens of a round that committed `path` of `draft`.

        An accepted token counts, and so does the token that replaces a rejected one: draft and
        target saw the same past there. The target's token after a node whose successors were not
        drafted does not count. logits: [n + 1, V], the target's after the root and each node.
        """
        if draft.branch_probabilities is None:
            raise ValueError("the draft has no probabilities of its branches to score")
        xp, integers = self.framework.xp, self.framework.integers
        nodes = [0, *(node + 1 for node in path)]
        if draft.outputs is None:
            nodes = nodes[: draft.depth]  # nothing was drafted after the end of the chain
        index = integers(nodes)
        places: Array = index if draft.outputs is None else xp.take(draft.outputs(), index, axis=0)
        counts = xp.astype(places >= 0, xp.float32)
        q = xp.take(draft.branch_probabilities, xp.where(places >= 0, places, 0), axis=0)
        p = formulas.softmax(xp, xp.astype(xp.take(logits, index, axis=0), xp.float32))
        rows = formulas.score(xp, p, q, self.candidates, self.framework.top)
        scores = xp.sum(rows * xp.reshape(counts, (-1, 1, 1)), axis=0)
        scores = scores if self.scores is None else self.scores + scores
        return replace(self, scores=scores, tokens=self.tokens + xp.sum(counts))

    def weights(self, start: Array) -> Array:
        """The weights [R] to draft with: `start` until a token is scored.

        Then the candidate with the most agreements; ties go to the smallest distance, of which two
        tie within TIE per token, then to the first. Weights that are zero in `start` stay zero.
        """
        if self.scores is None:
            return start
        xp, candidates, (agreements, distance) = self.framework.xp, self.candidates, self.scores
        excess = candidates @ xp.where(start > 0, xp.zeros_like(start), xp.ones_like(start))
        agreements = xp.where(excess > 0, -1.0, agreements)
        distance = xp.where(agreements == xp.max(agreements), distance, float("inf"))
        highest = xp.min(distance) + formulas.TIE * self.tokens
        near = xp.where(distance <= highest, 1.0, xp.zeros_like(distance))
        # The array API's argmax returns the first of several equal values.
        place = xp.expand_dims(xp.argmax(near, axis=-1), axis=0)
        return xp.take(candidates, place, axis=0)[0]


class ViewDrafter(Generic[A]):
    """Implements `contract.Drafter` over the branches of a draft model (IbED, section 3.1)."""

    def __init__(
        self,
        branches: Branches[A],
        weights: Sequence[float],
        positions: int | None,
        *,
        adaptive: bool = False,
    ) -> None:
        """weights: [R], summing to one; adaptive weights start from them in every answer.

        positions: number of positions that the draft was trained for; None if branches may run past
        them.  adaptive: whether weights are fitted; `branches` must have been opened with
        probabilities.
        """
        self._branches, self._positions = branches, positions
        self._framework = branches.framework
        self._start = list(weights)
        self._tally: Tally[A] | None = None
        if adaptive and len(weights) > 1:
            self._tally = Tally.of(self._framework, len(weights))
        self._draft: DeviceDraft[A] | None = None
        self._upload = self._start, self._framework.floats(self._start)
        """The weights of the latest draft before they are fitted, on the host and the device."""
        self._latest = self._upload[1]

    @property
    def length(self) -> int:
        """Number of columns in the sequence, including those not yet fed."""
        return self._branches.length

    @property
    def room(self) -> int | None:
        """Most tokens that a branch has positions for; None if branches may run past them."""
        if self._positions is None:
            return None
        return max(self._positions - min(self._branches.row_lengths), 0)

    @property
    def weights(self) -> list[float]:
        """[R] the weights of the latest draft.  Blocks if they are fitted."""
        if self._tally is None:
            return self._upload[0]
        (weights,) = self._framework.read(self._latest)
        return weights

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per branch; fitted weights start anew."""
        self._branches.extend(segments)
        self._tally = self._tally and self._tally.without_scores()

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on; fitted weights start anew."""
        self._branches.rewind(length)
        self._tally, self._draft = self._tally and self._tally.without_scores(), None

    def draft(self, plan: Plan, noise: Noise) -> DeviceDraft[A] | None:
        """Enqueue a draft from the mixture, shorter where no branch has room for the plan's.

        None if no branch with a weight has room for a token.
        """
        self._draft, room = None, self.room
        plan = plan if room is None else plan.within(room)
        weights = self._with_room(plan.gamma)
        if not plan.gamma or not weights:
            return None
        with self._framework.inference():
            if weights != self._upload[0]:
                self._upload = weights, self._framework.floats(weights)
            start = self._upload[1]
            self._latest = self._tally.weights(start) if self._tally else start
        self._draft = self._branches.draft(plan, self._latest, noise)
        return self._draft

    def commit(self, path: Sequence[int], tokens: Sequence[int], verdict: Verdict) -> None:
        """Append `tokens`; adaptive weights are fitted to the verdict on the draft."""
        tally = self._tally
        if tally and self._draft and verdict.logits:
            with self._framework.inference():
                tally = tally.after(self._draft, verdict.logits.array, path)
        self._branches.commit(path, tokens)
        self._tally, self._draft = tally, None

    def _with_room(self, gamma: int) -> list[float]:
        """The weights of branches that have room for `gamma` positions; empty if none is left."""
        most, lengths = self._positions, self._branches.row_lengths
        if most is None or max(lengths) + gamma <= most:
            return self._start
        pairs = zip(self._start, lengths, strict=True)
        weights = [weight if length + gamma <= most else 0.0 for weight, length in pairs]
        total = sum(weights)
        return [weight / total for weight in weights] if total else []
