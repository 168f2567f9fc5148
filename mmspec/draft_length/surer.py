"""The draft length of two drafters, of which the surer drafts: lookup, and one that takes time."""

from functools import partial

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.policy import AdaptiveDraftLength, FixedDraftLength

OneDraftLength = FixedDraftLength | AdaptiveDraftLength


class SurerDraftLength:
    """Plans both drafts of a round; each part observes its own rounds, and plain ones."""

    def __init__(self, lookup: OneDraftLength, other: OneDraftLength) -> None:
        self._lookup, self._other = lookup, other

    def choose(self, max_gamma: int, context: int) -> Plan:
        """The other drafter's plan, and lookup's where more than its pace is expected."""
        plan, lookup = (each.choose(max_gamma, context) for each in (self._other, self._lookup))
        pays = partial(self._lookup.pays, pace=self._other.pace)
        return plan._replace(lookup=lookup._replace(pays=pays)) if lookup.gamma else plan

    def observe(self, round_: Round) -> None:
        """Observe a finished round."""
        by_lookup = round_.by_lookup
        for each, is_own in ((self._lookup, by_lookup), (self._other, not by_lookup)):
            if is_own or not round_.drafted:
                each.observe(round_)
            else:
                each.pass_by(round_)

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while one may pay."""
        return self._lookup.plain_reason() and self._other.plain_reason()


DraftLength = OneDraftLength | SurerDraftLength
