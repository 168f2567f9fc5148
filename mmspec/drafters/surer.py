"""Drafts with lookup where it is surer, else with another drafter: the drafter and its lengths."""

from collections.abc import Sequence
from functools import partial

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Drafter, Segment
from mmspec.decoding.draft import Draft, Plan
from mmspec.decoding.noise import Noise
from mmspec.decoding.statistics import Round
from mmspec.draft_length.policy import OneDraftLength
from mmspec.ground.tokens import NO_TOKEN


class SurerDrafter:
    """Implements `contract.Drafter`: lookup drafts where it is surer than a drafter with a model.

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


class SurerDraftLength:
    """Plans both drafts of a round; each part observes its own rounds, and plain ones.

    Lookup takes little time, but some: after a draft that did not pay it waits for a round.
    """

    def __init__(self, lookup: OneDraftLength, other: OneDraftLength) -> None:
        self._lookup, self._other = lookup, other
        self._asks_lookup, self._waits = False, False

    def choose(self, max_gamma: int, context: int) -> Plan:
        """The other drafter's plan, and lookup's where more than its pace is expected."""
        plan, lookup = (each.choose(max_gamma, context) for each in (self._other, self._lookup))
        self._asks_lookup = lookup.gamma > 0 and not (plan.gamma and self._waits)
        pays = partial(self._lookup.pays, pace=self._other.pace)
        return plan._replace(lookup=lookup._replace(pays=pays)) if self._asks_lookup else plan

    def observe(self, round_: Round) -> None:
        """Observe a finished round."""
        self._waits = self._asks_lookup and not round_.by_lookup
        if round_.by_lookup or not round_.drafted:
            self._lookup.observe(round_)
        if not round_.by_lookup:
            self._other.observe(round_)

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while one may pay."""
        return self._lookup.plain_reason() and self._other.plain_reason()


DraftLength = OneDraftLength | SurerDraftLength
