"""Where two views' tokens are right in the target's answers, and what that says of their mixture.

The rounds of a chain tell which places of an answer its view had right: the accepted ones, and not
the one after them. The place after a chain that was accepted whole is unknown. All methods give
the target's answer, so that their places can be compared, and no forward is needed beyond decoding.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import sqrt

from mmspec_bench.suite.metrics import pairs, ratio
from mmspec_bench.suite.rows import AnswerRow

EVEN, CURVE = 0.54, 1.62
"""The curve r = EVEN + CURVE · (1/2 - s)²: of the places that one view alone has right, the share r
that the even mixture has right, by the weaker view's share s. Measured on drafts of `mini`."""
BREAK_EVEN = 0.5 - (1 - sqrt(1 - 4 * CURVE * (EVEN - 0.5))) / (2 * CURVE)
"""The weaker view's share above which r > 1 - s: the mixture beats the better view."""


@dataclass(slots=True)
class ViewPair:
    """Counts of the places of answers by which of two views is right there."""

    places: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    """Number of places by whether the first and the second view are right."""
    mixed: Counter[bool] = field(default_factory=Counter)
    """Number of places that one view alone has right, by whether their mixture is right there."""

    def share(self, first: bool, second: bool) -> float:
        """The share of places at which exactly the views that are True are right."""
        return ratio(self.places[first, second], self.places.total())

    @property
    def lone(self) -> float:
        """The share of places at which exactly one view is right."""
        return self.share(True, False) + self.share(False, True)

    @property
    def weaker(self) -> float:
        """The share of the places with one right view that the less often right one has right."""
        return ratio(min(self.share(True, False), self.share(False, True)), self.lone)

    @property
    def recovered(self) -> float | None:
        """The share of the places with one right view at which their mixture is right."""
        return ratio(self.mixed[True], self.mixed.total()) if self.mixed else None

    def expected_gain(self, draft_length: int) -> float:
        """The even mixture's tokens per round over the better view's, less 1, by that curve.

        As if places were right independently: tokens per round are then 1 + a + … + a^draft_length.
        """
        shares = EVEN + CURVE * (0.5 - self.weaker) ** 2, 1 - self.weaker
        mixed, single = (
            sum((self.share(True, True) + part * self.lone) ** n for n in range(draft_length + 1))
            for part in shares
        )
        return mixed / single - 1


def right_places(row: AnswerRow) -> dict[int, bool]:
    """Whether the chain's token was the target's, by place in the answer, where that is known."""
    known: dict[int, bool] = {}
    start = 0
    for round_ in row.rounds:
        known |= dict.fromkeys(range(start, start + round_.accepted), True)
        if round_.accepted < round_.drafted:
            known[start + round_.accepted] = False
        start += round_.emitted
    return {place: right for place, right in known.items() if place < start}


def compare(
    first: Iterable[AnswerRow], second: Iterable[AnswerRow], mixture: Iterable[AnswerRow] = ()
) -> ViewPair:
    """Count the places of the answers that both views drafted, known of both."""
    counts, mixed = ViewPair(), {row.key: row for row in mixture}
    for one, other in pairs(first, second):
        if one.token_ids != other.token_ids:
            continue
        left, right = right_places(one), right_places(other)
        both = right_places(mixed[one.key]) if one.key in mixed else {}
        for place in left.keys() & right.keys():
            counts.places[left[place], right[place]] += 1
            if left[place] != right[place] and place in both:
                counts.mixed[both[place]] += 1
    return counts
