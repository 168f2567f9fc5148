"""What rounds cost in plain rounds: as calibrated, corrected by what is measured while decoding."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from statistics import median_low
from typing import NamedTuple

from mmspec.draft_length.cost_curves import Costs, line

WINDOW = 9
"""Latest rounds of a draft whose lower quartile is its cost: what disturbs only makes slower."""
FAR = 1.6
"""Factor of calibrated times from which the machine has changed: plain rounds are measured."""
FEW = 3
"""Rounds of a calibrated draft from which its own time is believed, not that of all drafts; and
rounds after which plain ones are measured again beside trials that do not pay."""
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
        self._units: dict[int, Sequence[float]] = {}
        """Calibrated seconds at the present context, by nodes and gamma."""
        self._context = 0
        self._times: dict[Candidate, deque[float]] = {}
        """Seconds of each draft's rounds, divided by the calibrated ones if there are any."""
        self._usual: dict[Candidate, float] = {}
        """The lower quartile of each draft's times."""
        self._latest: Candidate | None = None
        self._begins, self._believes_calibrated = False, bool(calibrated)

    @property
    def measured(self) -> Collection[Candidate]:
        """The drafts whose rounds were measured."""
        return self._times.keys()

    @property
    def knows_plain(self) -> bool:
        """True if the calibration is believed, or the time of a plain round is measured twice."""
        rounds = len(self._times.get(PLAIN, ()))
        is_first = rounds == 1 and self._begins and self._latest == PLAIN
        return self._believes_calibrated or (rounds > 0 and not is_first)

    def move(self, context: int) -> None:
        """Take the calibrated costs at a context."""
        if context // STRIDE != self._context // STRIDE or not self._units:
            calibrated = self._calibrated.items()
            self._units = {n: line(costs(context), self._most) for n, costs in calibrated}
        self._context = context

    def measure(self, draft: Candidate, seconds: float) -> None:
        """Take the time of a round; of the first two in a row, the first of which is slow, one."""
        unit = self._units[draft.nodes][draft.gamma] if self._units else 1.0
        times, ratio = self._times.setdefault(draft, deque(maxlen=WINDOW)), seconds / unit
        is_second = self._begins and self._latest == draft
        if is_second:
            ratio = min(ratio, times.pop())
        if is_second and not 1 / FAR < ratio < FAR:
            self._believes_calibrated = False
        times.append(ratio)
        self._usual[draft] = sorted(times)[len(times) // 4]
        self._begins, self._latest = draft != self._latest, draft

    def line_of(self, nodes: int) -> Sequence[float]:
        """Cost of a round by gamma in plain rounds, for chains or for trees of so many nodes."""
        times = self._usual
        if not self._calibrated:
            steps = {draft.gamma: time / times[PLAIN] for draft, time in times.items()}
            single = {draft.gamma for draft, each in self._times.items() if len(each) == 1}
            likely = {g: min(s, 1 + g) if g in single else s for g, s in steps.items()}
            return line(likely, self._most)
        usual = median_low(times.values()) if times else 1.0
        own = {
            d: time
            for d, time in times.items()
            if len(self._times[d]) >= FEW or (d == PLAIN and not self._believes_calibrated)
        }
        plain = own.get(PLAIN, usual) * self._units[0][0]
        ratios = (own.get(Candidate(nodes, gamma), usual) for gamma in range(1, self._most + 1))
        units = self._units[nodes][1:]
        return [1.0, *(unit * ratio / plain for unit, ratio in zip(units, ratios, strict=True))]
