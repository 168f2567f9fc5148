"""The draft length of two drafters, of which the surer drafts: lookup, and one that takes time."""

from functools import partial

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.policy import AdaptiveDraftLength, FixedDraftLength

OneDraftLength = FixedDraftLength | AdaptiveDraftLength

LONGEST_WAIT = 4
"""Most rounds of another drafter for which lookup is not asked, after drafts that did not pay: if
it never pays it is asked in a fifth of all rounds, and a passage that it copies is soon found."""


class SurerDraftLength:
    """Plans both drafts of a round; each part observes its own rounds, and plain ones."""

    def __init__(self, lookup: OneDraftLength, other: OneDraftLength) -> None:
        self._lookup, self._other = lookup, other
        self._asked, self._wait, self._next_wait = False, 0, 1
        """Whether lookup was asked, how many rounds it waits, and how many it would wait next."""

    def choose(self, max_gamma: int, context: int) -> Plan:
        """The other drafter's plan, and lookup's where more than its pace is expected."""
        plan, lookup = (each.choose(max_gamma, context) for each in (self._other, self._lookup))
        self._asked = lookup.gamma > 0 and not (plan.gamma and self._wait)
        pays = partial(self._lookup.pays, pace=self._other.pace)
        return plan._replace(lookup=lookup._replace(pays=pays)) if self._asked else plan

    def observe(self, round_: Round) -> None:
        """Observe a finished round."""
        by_lookup = round_.by_lookup
        if by_lookup:
            self._wait, self._next_wait = 0, 1
        elif self._asked:
            self._wait, self._next_wait = self._next_wait, min(2 * self._next_wait, LONGEST_WAIT)
        else:
            self._wait = max(self._wait - 1, 0)
        for each, is_own in ((self._lookup, by_lookup), (self._other, not by_lookup)):
            if is_own or not round_.drafted:
                each.observe(round_)
            else:
                each.pass_by(round_)

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while one may pay."""
        return self._lookup.plain_reason() and self._other.plain_reason()


DraftLength = OneDraftLength | SurerDraftLength
