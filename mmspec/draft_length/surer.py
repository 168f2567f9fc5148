"""The draft length of two drafters, of which the surer drafts: lookup, and one that takes time."""

from functools import partial

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.policy import AdaptiveDraftLength, FixedDraftLength

OneDraftLength = FixedDraftLength | AdaptiveDraftLength


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
