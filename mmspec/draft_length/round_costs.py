"""What rounds cost in plain rounds: as calibrated, corrected by what is measured while decoding."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from statistics import median_low
from typing import NamedTuple

from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.cost_curves import Costs, line

WINDOW = 9
"""Latest rounds whose median counts; what is presumed of a draft counts as one of its rounds."""
FAR = 1.6
"""Factor of slowing since the last plain round from which plain rounds are measured again."""
STRIDE = 128
"""Positions over which the calibrated cost of a round counts as constant."""


class Candidate(NamedTuple):
    """A chain of gamma tokens, or a tree of `nodes` nodes and gamma levels."""

    nodes: int
    """0 for a chain."""
    gamma: int
    """0 for a plain round."""


PLAIN = Candidate(0, 0)


class RoundCosts:
    """Costs of chains by their length, and of trees by nodes and levels.

    A round's seconds are its draft's cost times the machine's speed, which is the same for all
    drafts. So a draft's cost is measured only while most of the latest rounds are of others: if the
    rounds of one draft become slower, the machine has.
    """

    def __init__(self, calibrated: Mapping[int, Costs], most: int, *, blocks: bool = False) -> None:
        """calibrated: seconds by a tree's nodes, 0 for chains; empty if none were calibrated.

        most: the longest chain.  blocks: True if whole blocks are drafted, whatever is verified.
        """
        self._calibrated, self._most = calibrated, most
        self.is_calibrated, self.kinds = bool(calibrated), calibrated.keys() | {0}
        self.drafts = self._up_to(MAX_AUTO_GAMMA if calibrated or blocks else 1)
        """The drafts whose cost can be presumed: not calibrated, up to twice the longest known."""
        self._units: dict[int, Sequence[float]] = {0: [1.0] * (most + 1)}
        """Calibrated seconds at the present context, by nodes and gamma; 1 if there are none."""
        self._place = -1
        self._costs: dict[Candidate, deque[float]] = {}
        """Costs of each draft's rounds, divided by the calibrated ones if there are any."""
        self._usual: dict[Candidate, float] = {}
        """The medians of these costs."""
        self._typical, self._plain = 1.0, 1.0
        """The median of 1 and the drafts' medians, presumed of other drafts; plain rounds' own."""
        self._blocks = blocks
        self._line = [1.0 + (min(gamma, 1) if blocks else gamma) for gamma in range(most + 1)]
        """Presumed costs if none are calibrated; at first a token or block costs a plain round."""
        self._latest = deque[tuple[Candidate, float]](maxlen=WINDOW)
        """The latest rounds and their seconds, divided by the calibrated ones."""
        self._speed = 1.0
        """The median of these seconds, divided by their drafts' costs."""
        self._last_plain, self._plain_rounds, self._rounds = 0.0, 0, 0

    @property
    def measured(self) -> Collection[Candidate]:
        """The drafts whose rounds were measured."""
        return self._costs.keys()

    @property
    def knows_plain(self) -> bool:
        """True if plain rounds were calibrated or measured twice, and seem no slower since then."""
        if not self._plain_rounds:
            return self.is_calibrated
        is_near = self._speed * self._plain < FAR * self._last_plain
        return is_near and (self.is_calibrated or self._plain_rounds > 1)

    def move(self, context: int) -> None:
        """Take the calibrated costs at a context."""
        if context // STRIDE != self._place:
            self._place, calibrated = context // STRIDE, self._calibrated.items()
            self._units |= {nodes: line(costs(context), self._most) for nodes, costs in calibrated}

    def measure(self, draft: Candidate, seconds: float) -> None:
        """Take the time of a round."""
        seconds /= self._units[draft.nodes][draft.gamma]
        self._rounds += 1
        if draft == PLAIN:
            self._last_plain, self._plain_rounds = seconds, self._plain_rounds + 1
        costs = self._costs.setdefault(draft, deque(maxlen=WINDOW))
        others = sum(each != draft for each, _ in self._latest)
        is_early = self.is_calibrated and self._rounds < 3 * WINDOW  # a process begins slowly
        if 2 * others > len(self._latest) and not is_early:
            costs.append(seconds / self._speed)
            self._usual[draft] = median_low([self._presumed(draft), *costs])
            drafts = [cost for each, cost in self._usual.items() if each != PLAIN]
            self._typical = median_low([1.0, *drafts])
            self._plain = self._own(PLAIN)
            if not self.is_calibrated:
                self._draw_line()
        self._latest.append((draft, seconds))
        self._speed = median_low(time / self._own(each) for each, time in self._latest)

    def _draw_line(self) -> None:
        known = {1: 2 * self._plain} | {gamma: cost for (_, gamma), cost in self._usual.items()}
        if self._blocks:
            known.pop(0, None)
        else:
            known[0] = self._plain
            self.drafts = self._up_to(min(2 * max(g for _, g in self._usual) or 1, MAX_AUTO_GAMMA))
        self._line = line(known, self._most)

    def _up_to(self, most: int) -> list[Candidate]:
        return [Candidate(n, gamma) for n in self.kinds for gamma in range(2 if n else 1, most + 1)]

    def of(self, draft: Candidate) -> float:
        """Cost of a draft's round in plain rounds."""
        cost = self._own(draft) / self._plain
        return cost * self._units[draft.nodes][draft.gamma] / self._units[0][0]

    def _own(self, draft: Candidate) -> float:
        return self._usual.get(draft) or self._presumed(draft)

    def _presumed(self, draft: Candidate) -> float:
        """The cost of other drafts: their median or, not calibrated, on the line through them."""
        if not self.is_calibrated:
            return self._line[draft.gamma]
        return 1.0 if draft == PLAIN else self._typical
