"""What rounds cost in plain rounds: as calibrated, corrected by what is measured while decoding."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from operator import mul
from statistics import median_low
from typing import NamedTuple

from mmspec.draft_length.cost_curves import Costs, line

WINDOW = 9
"""Latest rounds of a draft whose median is its cost; the cost that is presumed counts as one."""
FAR = 1.6
"""Factor by which drafts take longer than calibrated before plain rounds are measured."""
STRIDE = 32
"""Positions over which the calibrated cost of a round counts as constant."""


class Candidate(NamedTuple):
    """A chain of gamma tokens, or a tree of so many nodes and gamma levels."""

    nodes: int
    """0 for a chain."""
    gamma: int
    """0 for a plain round."""


PLAIN = Candidate(0, 0)


class RoundCosts:
    """Costs of chains by their length, and of trees by nodes and levels."""

    def __init__(self, calibrated: Mapping[int, Costs], most: int) -> None:
        """calibrated: seconds by a tree's nodes, 0 for chains; empty if none were calibrated.

        most: the longest chain.
        """
        self._calibrated, self._most = calibrated, most
        self.is_calibrated, self.kinds = bool(calibrated), calibrated.keys() | {0}
        self._units: dict[int, Sequence[float]] = {}
        """Calibrated seconds at the present context, by nodes and gamma."""
        self._place = -1
        self._times: dict[Candidate, deque[float]] = {}
        """Seconds of each draft's rounds, divided by the calibrated ones if there are any."""
        self._speed = 1.0
        """The median of all drafts' medians."""
        self._costs: dict[int, Sequence[float]] = {}

    @property
    def measured(self) -> Collection[Candidate]:
        """The drafts whose rounds were measured."""
        return self._times.keys()

    @property
    def reach(self) -> int:
        """The longest chain whose cost can be guessed."""
        return self._most if self.is_calibrated else 2 * max([0, *(g for _, g in self._times)]) or 1

    @property
    def knows_plain(self) -> bool:
        """True if the calibration is believed, or plain rounds were measured twice."""
        is_near = self.is_calibrated and self._speed < FAR
        return is_near or len(self._times.get(PLAIN, ())) > 1

    def move(self, context: int) -> None:
        """Take the calibrated costs at a context."""
        if context // STRIDE != self._place:
            self._place, calibrated = context // STRIDE, self._calibrated.items()
            self._units = {nodes: line(costs(context), self._most) for nodes, costs in calibrated}
            self._costs = {}

    def measure(self, draft: Candidate, seconds: float) -> None:
        """Take the time of a round."""
        unit = self._units[draft.nodes][draft.gamma] if self._units else 1.0
        self._times.setdefault(draft, deque(maxlen=WINDOW)).append(seconds / unit)
        self._speed = median_low(map(median_low, self._times.values()))
        self._costs = {}

    def of(self, nodes: int) -> Sequence[float]:
        """Cost of a round by gamma in plain rounds, for chains or for trees of so many nodes."""
        if nodes not in self._costs:
            self._costs[nodes] = self._corrected(nodes) if self._units else self._between()
        return self._costs[nodes]

    def _corrected(self, nodes: int) -> list[float]:
        plain = self._units[0][0] * self._time(PLAIN, self._speed)
        drafts = (Candidate(nodes, gamma) for gamma in range(1, self._most + 1))
        ratios = [self._time(draft, self._speed) / plain for draft in drafts]
        return [1.0, *map(mul, self._units[nodes][1:], ratios)]

    def _between(self) -> list[float]:
        """Costs on the line through those that are known; a single token is presumed to cost 1."""
        plain = median_low(self._times.get(PLAIN, [1.0]))
        known = {0, 1} | {gamma for _, gamma in self._times}
        times = {g: self._time(Candidate(0, g), (1 + g) * plain) for g in known}
        return [time / plain for time in line(times, self._most)]

    def _time(self, draft: Candidate, guess: float) -> float:
        """The median of a draft's times, among which a guess counts as one."""
        times: Sequence[float] = self._times.get(draft, ())
        return median_low([guess, *times])
