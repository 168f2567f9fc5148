"""Lookup beside a drafter with a model: lookup drafts where it is the surer, and costs no time."""

from collections.abc import Sequence

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Drafter, Segment
from mmspec.decoding.draft import Draft, Plan
from mmspec.decoding.noise import Noise
from mmspec.ground.tokens import NO_TOKEN


class SurerDrafter:
    """Implements `mmspec.decoding.contract.Drafter` by lookup and a drafter with a model.

    Both have the same columns: in lookup's text NO_TOKEN stands for images and padding.
    """

    def __init__(self, lookup: Drafter, drafter: Drafter) -> None:
        self._lookup, self._drafter, self._by_lookup = lookup, drafter, False

    @property
    def length(self) -> int:
        """Number of columns in the sequence, including those not yet fed."""
        return self._drafter.length

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per view; lookup reads the first."""
        first, start = segments[0], self.length
        self._lookup.rewind(start)  # after an interrupt
        padding = [NO_TOKEN] * (max(map(len, segments)) - len(first))
        self._lookup.extend([Segment([padding, *first.parts])])
        self._drafter.extend(segments)

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on."""
        self._lookup.rewind(length)
        self._drafter.rewind(length)

    def draft(self, plan: Plan, noise: Noise) -> Draft | None:
        """Lookup's draft if the plan finds that it pays, else the other drafter's."""
        draft = self._lookup.draft(plan.lookup, noise) if plan.lookup else None
        self._by_lookup = draft is not None
        return draft or (self._drafter.draft(plan, noise) if plan.gamma else None)

    def commit(self, path: Sequence[int], tokens: Sequence[int], verdict: Verdict) -> None:
        """Append `tokens`; the other drafter feeds those of lookup's path in its next draft."""
        self._lookup.commit(path, tokens, verdict)
        self._drafter.commit([] if self._by_lookup else path, tokens, verdict)
