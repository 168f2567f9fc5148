"""What rounds take: as calibrated at a context, corrected by the rounds that were measured."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median_low

from mmspec.decoding.draft import Plan

Seconds = Mapping[int, float]
"""Seconds by a number of rows, branches or tokens."""
Curves = Mapping[int, Seconds]
"""Seconds at each measured context length, in positions."""
Costs = Callable[[int], Seconds]
"""Function from a context length to the seconds of a round by draft length from 0."""

PLAIN = Plan(0, 0)
WINDOW = 9
"""Latest rounds of a draft whose lower quartile is its cost: what disturbs only makes slower."""
MARGIN = 1.05
"""Factor below which two rates or times count as equal: to change the draft costs time."""


def at_context(curves: Curves, context: int) -> dict[int, float]:
    """Seconds at `context`, interpolated linearly between the two nearest measured contexts.

    Attention costs time in proportion to the context, all else does not depend on it.  Before the
    shortest measured context the seconds are those there; beyond the longest the line goes on and
    never falls.  Empty if nothing was measured.
    """
    lengths = sorted(curves)
    if not lengths:
        return {}
    place = bisect_left(lengths, context)
    if place == 0 or len(lengths) == 1:
        return dict(curves[lengths[0]])
    high = min(place, len(lengths) - 1)
    start, end = lengths[high - 1], lengths[high]
    share, last = (context - start) / (end - start), place == len(lengths)
    seconds: dict[int, float] = {}
    for number, there in curves[end].items():
        rise = there - curves[start].get(number, there)
        seconds[number] = there - (rise if not last else max(rise, 0.0)) * (1 - share)
    return seconds


def line(points: Seconds, most: int) -> list[float]:
    """Values at 0 to `most` on the line through `points`; if only 0 is known, each token
    costs as much again.

    Beyond the longest known length the line goes on but never falls.
    """
    known = sorted(points)
    if len(known) == 1:
        return [points[known[0]] * (1 + gamma) for gamma in range(most + 1)]
    values: list[float] = []
    for low, high in pairwise(known):
        slope = (points[high] - points[low]) / (high - low)
        values += [points[low] + slope * step for step in range(high - low)]
    rise = max(slope, 0.0)
    return values + [points[high] + rise * step for step in range(most + 1 - high)]


class RoundCosts:
    """Costs of rounds in plain rounds, by the nodes of a tree, 0 for chains, and by gamma."""

    def __init__(self, calibrated: Mapping[int, Costs], most: int) -> None:
        """calibrated: by nodes; empty if nothing was calibrated.  most: the longest chain."""
        self._calibrated, self._most = calibrated, most
        self._units: dict[int, Sequence[float]] = {}
        """Calibrated seconds at the present context, by nodes and gamma."""
        self._times: dict[Plan, deque[float]] = {}
        """Seconds of each draft's rounds, divided by the calibrated ones if there are any."""
        self._usual: dict[Plan, float] = {}
        """The lower quartile of each draft's times."""
        self._believes_calibrated = bool(calibrated)

    @property
    def knows_plain(self) -> bool:
        """True if the calibration is believed, or plain rounds were measured."""
        return self._believes_calibrated or self.knows(PLAIN)

    def knows(self, plan: Plan) -> bool:
        """True if a round's own time is known: the first two may be slow, a plain one's first."""
        return len(self._times.get(plan, ())) > (1 if plan == PLAIN else WINDOW // 4)

    def move(self, context: int) -> None:
        """Take the calibrated costs at a context."""
        self._units = {n: line(at(context), self._most) for n, at in self._calibrated.items()}

    def measure(self, plan: Plan, seconds: float) -> None:
        """Take the time of a round."""
        unit = self._units[plan.tree][plan.gamma] if self._units else 1.0
        times = self._times.setdefault(plan, deque(maxlen=WINDOW))
        times.append(seconds / unit)
        usual = self._usual[plan] = sorted(times)[len(times) // 4]
        if self.knows(plan) and not 1 / MARGIN < usual < MARGIN:  # the machine is another than then
            self._believes_calibrated = False

    def charge(self, plan: Plan) -> float:
        """Plain rounds that the last round of a draft is charged.

        Of the last two the faster counts: another program disturbs one round, a change all.
        """
        unit = self._units[plan.tree][plan.gamma] if self._units else 1.0
        return min(list(self._times[plan])[-2:]) * unit / self._plain_seconds

    def line_of(self, nodes: int) -> Sequence[float]:
        """Cost of a round by gamma in plain rounds, for chains or for trees of so many nodes."""
        plain = self._plain_seconds
        if not self._calibrated:
            costs = {p: time / plain for p, time in self._usual.items()}
            likely = {
                p: cost if self.knows(p) else min(cost, 1 + p.gamma) for p, cost in costs.items()
            }
            return line({plan.gamma: cost for plan, cost in likely.items()}, self._most)
        units = enumerate(self._units[nodes])
        return [unit * self._ratio(Plan(g, max(nodes, g))) / plain for g, unit in units]

    @property
    def _plain_seconds(self) -> float:
        return self._ratio(PLAIN) * (self._units[0][0] if self._units else 1.0)

    def _ratio(self, plan: Plan) -> float:
        """Time of a round by its calibrated one; that of all rounds if its own is not known."""
        if self.knows(plan) or not self._usual:
            return self._usual.get(plan, 1.0)
        return median_low(self._usual.values())
