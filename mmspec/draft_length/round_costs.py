"""What rounds cost in plain rounds: as presumed, corrected by what is measured while decoding."""

from collections import deque
from collections.abc import Mapping
from statistics import median_low
from typing import NamedTuple

from mmspec.draft_length.calibration_file import Costs, interpolate

WINDOW = 9
"""Number of latest rounds whose median counts; with 5 two simulated cells lose too much."""
DOUBT = 0.1
"""Plain rounds that count as added by drafts as presumed: where rows are free, ratios are noise."""
STRIDE = 128
"""Positions over which the presumed cost of a round counts as constant: to presume takes time."""


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
    drafts. So a draft is measured by the latest rounds of others: if the rounds of one draft become
    slower, the machine has.
    """

    def __init__(self, curves: Mapping[int, Costs], longest: int, trust: int) -> None:
        """curves: presumed seconds or costs of rounds by a tree's nodes, 0 for chains.

        longest: the longest chain.  trust: number of rounds for which calibrated costs count
        before a plain round is measured; 0 if the presumed ones are not calibrated.
        """
        self._curves, self._longest, self._trust = curves, longest, trust
        self._priors: dict[Candidate, float] = {}
        self._costs: dict[Candidate, float] = {}
        """Presumed costs at the present context, and the same corrected, in plain rounds."""
        self._ratios: dict[Candidate, deque[float]] = {}
        """Costs of each draft's latest measured rounds, divided by the presumed ones."""
        self._latest = deque[tuple[Candidate, float]](maxlen=WINDOW)
        """The latest rounds and their seconds."""
        self._plain_seconds, self._speed, self._rounds, self._place = 0.0, 0.0, 0, -1
        """Seconds of the last plain round and, by the latest rounds, of one now."""
        self.move(0)

    def of(self, draft: Candidate) -> float:
        """Cost of a draft's round in plain rounds."""
        return self._costs[draft]

    @property
    def knows_plain(self) -> bool:
        """False if plain rounds are to be measured: for the first time, or at another speed."""
        if not self._plain_seconds:
            return self._rounds < self._trust
        return 0.5 < self._speed / self._plain_seconds < 2

    @property
    def knows_drafts(self) -> bool:
        """True if a round that drafted was measured."""
        return bool(self._ratios)

    def move(self, context: int) -> None:
        """Presume the costs at a context; a draft that seems to save time was measured badly."""
        if context // STRIDE == self._place:
            return
        self._place = context // STRIDE
        for nodes, costs in self._curves.items():
            seconds = costs(context)
            for gamma in range(1, self._longest + 1):
                cost = interpolate(seconds, gamma) / seconds[0]
                self._priors[Candidate(nodes, gamma)] = max(cost, 1.0)
        self._correct()

    def measure(self, draft: Candidate, seconds: float) -> None:
        """Take the time of a round."""
        seconds = max(seconds, 1e-9)  # a coarse clock may show none
        others = [(other, time) for other, time in self._latest if other != draft]
        if 2 * len(others) > (WINDOW if self._trust else len(self._latest)):
            measured = draft
            cost = seconds / median_low(time / self.of(other) for other, time in others)
            if draft == PLAIN:  # costs one by definition: the draft before it costs more or less
                measured = others[-1][0]
                cost = self.of(measured) / cost
            first = [1.0] if self._trust else []  # a calibrated cost counts as a measured one
            ratios = self._ratios.setdefault(measured, deque(first, maxlen=WINDOW))
            ratios.append(cost / self._priors[measured])
            self._correct()
        self._rounds += 1
        self._latest.append((draft, seconds))
        self._speed = median_low(time / self.of(each) for each, time in self._latest)
        if draft == PLAIN:
            self._plain_seconds = seconds

    def _correct(self) -> None:
        """Correct costs as measured, and what other drafts add to a plain round in proportion."""
        ratios = self._ratios.items()
        costs = {draft: self._priors[draft] * median_low(window) for draft, window in ratios}
        prior = DOUBT + sum(self._priors[draft] - 1 for draft in costs)
        share = max((DOUBT + sum(costs.values()) - len(costs)) / prior, 0.0)
        others = {draft: 1 + share * (cost - 1) for draft, cost in self._priors.items()}
        self._costs = {PLAIN: 1.0} | others | costs
