"""Drafts with a draft model that reads several views of the prompt: their weighted mixture.

Shape letters: R branches.
"""

from collections.abc import Sequence
from typing import Generic

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Branches, Segment
from mmspec.decoding.draft import DeviceDraft, Plan
from mmspec.decoding.noise import Noise
from mmspec.drafters.adaptive_weights import Tally
from mmspec.ground.arrays import A


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
        self._given = list(weights)
        self._tally: Tally[A] | None = None
        if adaptive and len(weights) > 1:
            self._tally = Tally.of(self._framework, len(weights))
        self._draft: DeviceDraft[A] | None = None
        self._uploaded = self._given, self._framework.floats(self._given)
        self._latest = self._uploaded[1]

    @property
    def length(self) -> int:
        """Number of columns in the sequence, including those not yet fed."""
        return self._branches.length

    @property
    def weights(self) -> list[float]:
        """[R] the weights of the latest draft.  Blocks if they are fitted."""
        if self._tally is None:
            return self._uploaded[0]
        (weights,) = self._framework.read(self._latest)
        return weights

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per branch; fitted weights start anew."""
        self._branches.extend(segments)
        self._tally = self._tally and self._tally.emptied()

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on; fitted weights start anew."""
        self._branches.rewind(length)
        self._tally = self._tally and self._tally.emptied()

    def draft(self, plan: Plan, noise: Noise) -> DeviceDraft[A] | None:
        """Enqueue a draft from the mixture; None if no branch with a weight has room for it."""
        self._draft = None
        weights = self._with_room(plan.gamma)
        if not weights:
            return None
        with self._framework.inference():
            if weights != self._uploaded[0]:
                self._uploaded = weights, self._framework.floats(weights)
            start = self._uploaded[1]
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
        """The weights without branches that have fewer than `gamma` unused positions.

        Empty if no weight is left.
        """
        most, lengths = self._positions, self._branches.row_lengths
        if most is None or max(lengths) + gamma <= most:
            return self._given
        pairs = zip(self._given, lengths, strict=True)
        left = [weight if length + gamma <= most else 0.0 for weight, length in pairs]
        total = sum(left)
        return [weight / total for weight in left] if total else []
