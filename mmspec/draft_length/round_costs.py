"""Estimates from rounds: acceptance by position in the draft, seconds by draft length.

gamma: drafted tokens of a chain, levels of a tree.
"""

from collections import deque
from collections.abc import Mapping
from statistics import median_low

from mmspec.decoding.statistics import Round

MAX_AUTO_GAMMA = 8
"""Number of tokens in the longest draft that an adaptive length tries."""
DECAY = 0.95
"""Factor by which the weight of an observation decays per round; about twenty rounds count."""
PRIOR = 0.6
"""Acceptance probability before any observation; it weighs as much as two observed tokens."""
SAMPLES = 9
"""Number of latest rounds whose median is the cost of a draft length."""
FAR = 2.0
"""Ratio of two costs of one draft length from which they contradict each other."""


class Acceptance:
    """Running acceptance probabilities of drafted tokens, by position in the draft."""

    def __init__(self) -> None:
        self._judged = [0.0] * MAX_AUTO_GAMMA
        self._accepted = [0.0] * MAX_AUTO_GAMMA

    def observe(self, round_: Round) -> None:
        """Count the accepted tokens and the first rejected one."""
        # If an answer ends in an accepted token, no token after it was rejected.
        rejected = len(round_.tokens) > round_.accepted
        for place in range(min(round_.accepted + rejected, round_.depth, MAX_AUTO_GAMMA)):
            self._judged[place] = DECAY * self._judged[place] + 1
            self._accepted[place] = DECAY * self._accepted[place] + (place < round_.accepted)

    def expected_tokens(self) -> list[float]:
        """E(gamma), the expected tokens of a round, for gamma from 0 to MAX_AUTO_GAMMA.

        Positions with few observations are smoothed by the mean acceptance of all positions.
        """
        mean = (sum(self._accepted) + 2 * PRIOR) / (sum(self._judged) + 2)
        tokens, reached = [1.0], 1.0
        for judged, accepted in zip(self._judged, self._accepted, strict=True):
            reached *= (accepted + 2 * mean) / (judged + 2)
            tokens.append(tokens[-1] + reached)
        return tokens


class RoundCosts:
    """Cost of a round by draft length, in plain rounds: medians of seconds, interpolated linearly.

    Calibrated costs weigh as much as one round.  All calibrated ones are dropped if two measured
    rounds of one length contradict them.
    """

    def __init__(self, calibrated: Mapping[int, float]) -> None:
        self._seconds: dict[int, deque[float]] = {}
        self._calibrated = {gamma: s / calibrated[0] for gamma, s in calibrated.items() if gamma}
        self.steps: list[float] = []
        """Cost c(gamma) / c(0) for gamma 0 to MAX_AUTO_GAMMA; empty before the first round."""

    @property
    def plain_rounds(self) -> int:
        """Number of plain rounds in the median c(0)."""
        return len(self._seconds.get(0, ()))

    @property
    def lengths(self) -> list[int]:
        """Draft lengths whose cost is measured or calibrated."""
        measured = {gamma for gamma, seconds in self._seconds.items() if gamma and seconds}
        return sorted(measured | self._calibrated.keys())

    def observe(self, gamma: int, seconds: float) -> float | None:
        """Observe one round; returns its cost in plain rounds, at most FAR times the usual one.

        The limit is for rounds that other programs slow down. Returns None for the first round of a
        length if it took far longer than plain decoding would: it compiled kernels.
        """
        is_first = gamma not in self._seconds
        measured = self._seconds.setdefault(gamma, deque(maxlen=SAMPLES))
        if is_first and gamma and seconds > FAR * (1 + gamma) * median_low(self._seconds[0]):
            return None
        measured.append(max(seconds, 1e-9))
        plain = median_low(self._seconds[0])
        if gamma and self._calibrated and len(measured) > 1:
            ratio = median_low(measured) / plain / _line({0: 1.0} | self._calibrated, gamma)
            if not 1 / FAR < ratio < FAR:
                self._calibrated = {}
        points = {0: 1.0} | {length: self._cost(length, plain) for length in self.lengths}
        self.steps = [_line(points, length) for length in range(MAX_AUTO_GAMMA + 1)]
        return min(seconds / plain, FAR * self.steps[gamma])

    def _cost(self, gamma: int, plain: float) -> float:
        costs = [seconds / plain for seconds in self._seconds.get(gamma, ())]
        if gamma in self._calibrated:
            costs.append(self._calibrated[gamma])
        return median_low(costs)


def _line(points: Mapping[int, float], gamma: int) -> float:
    """The cost interpolated between the nearest known lengths; 1 + gamma if only c(0) is known.

    Beyond the longest known length the cost never falls.
    """
    if gamma in points:
        return points[gamma]
    if len(points) == 1:
        return 1.0 + gamma
    below = sorted(length for length in points if length < gamma)
    above = [length for length in points if length > gamma]
    low, high = (below[-1], min(above)) if above else below[-2:]
    slope = (points[high] - points[low]) / (high - low)
    return points[low] + max(slope, 0.0) * (gamma - low)
