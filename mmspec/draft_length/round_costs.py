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
"""Ratio of two costs from which they contradict each other."""


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
    """Seconds of a round by draft length: medians of measured rounds, interpolated linearly.

    Calibrated costs are scaled to the plain rounds of this session and weigh as much as one round.
    All are dropped if two measured rounds of one length contradict them.
    """

    def __init__(self, calibrated: Mapping[int, float]) -> None:
        self._rounds: dict[int, deque[float]] = {0: deque(maxlen=SAMPLES)}
        self._calibrated = {gamma: s / calibrated[0] for gamma, s in calibrated.items() if gamma}
        self._warmed_up: set[int] = set()
        self._medians: dict[int, float] = {}
        self.steps: list[float] = []
        """Cost c(gamma) / c(0) for gamma 0 to MAX_AUTO_GAMMA; empty before the first round."""

    @property
    def plain_rounds(self) -> int:
        """Number of plain rounds in the median c(0)."""
        return len(self._rounds[0])

    @property
    def lengths(self) -> list[int]:
        """Draft lengths whose cost has been measured or calibrated."""
        return sorted((self._rounds.keys() | self._calibrated.keys()) - {0})

    def observe(self, gamma: int, seconds: float, *, late: bool) -> float | None:
        """Observe one round; returns its cost in plain rounds, capped in case it was disturbed.

        Returns None for a warm-up round, which is not counted.  late: the round also fed the draft
        the tokens of preceding plain rounds, so it may lower a cost but not raise it.
        """
        if gamma and self._warms_up(gamma, seconds):
            self._warmed_up.add(gamma)
            return None
        rounds = self._rounds.setdefault(gamma, deque(maxlen=SAMPLES))
        if not (late and rounds and seconds > self._medians[gamma]):
            rounds.append(max(seconds, 1e-9))
        if gamma and self._calibrated and len(rounds) > 1:
            self._check_calibrated(gamma)
        for length in [gamma] if gamma else [0, *self.lengths]:
            self._medians[length] = self._median(length)
        self.steps = self._curve()
        return min(seconds / self._medians[0], FAR * self.steps[gamma])

    def _warms_up(self, gamma: int, seconds: float) -> bool:
        """True for the first round of a length if it took far longer than plain decoding would."""
        is_first = gamma not in self._rounds.keys() | self._warmed_up
        return is_first and seconds > FAR * (1 + gamma) * self._medians[0]

    def _check_calibrated(self, gamma: int) -> None:
        ratio = median_low(self._rounds[gamma]) / self._medians[0]
        calibrated = _line({0: 1.0} | self._calibrated, gamma)
        if not 1 / FAR < ratio / calibrated < FAR:
            self._calibrated = {}
            self._medians = {length: self._median(length) for length in self._rounds}

    def _median(self, gamma: int) -> float:
        """Median seconds of the rounds that drafted `gamma`, including its calibrated cost."""
        seconds = list(self._rounds.get(gamma, ()))
        if gamma in self._calibrated:
            seconds.append(self._calibrated[gamma] * self._medians[0])
        return median_low(seconds)

    def _curve(self) -> list[float]:
        points = {gamma: seconds / self._medians[0] for gamma, seconds in self._medians.items()}
        return [_line(points, gamma) for gamma in range(MAX_AUTO_GAMMA + 1)]


def _line(points: Mapping[int, float], gamma: int) -> float:
    """The cost at `gamma`, interpolated between known lengths; c(0) if no other is known.

    Beyond the longest known length the cost never falls.
    """
    if gamma in points:
        return points[gamma]
    below = sorted(length for length in points if length < gamma)
    above = [length for length in points if length > gamma]
    if not above and len(below) == 1:
        return points[0] * (1 + gamma)
    low, high = (below[-1], min(above)) if above else below[-2:]
    slope = (points[high] - points[low]) / (high - low)
    return points[low] + max(slope, 0.0) * (gamma - low)
