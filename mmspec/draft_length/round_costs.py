"""Costs of rounds in plain rounds, from a calibration and from the rounds of a session.

gamma: drafted tokens of a chain, levels of a tree.
"""

from collections.abc import Collection, Mapping
from itertools import pairwise

from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.round_times import CALIBRATED, PLAIN, RoundTimes

LENGTHS = range(MAX_AUTO_GAMMA + 1)
"""Draft lengths with a cost, from plain decoding on."""
FAR = 2.0
"""Ratio from which a round's cost is far off."""
LEAST, MOST = 0.03, 0.1
"""Limits of what a cost's spread adds to the promise of a length."""


class RoundCosts:
    """Cost of a round by draft length, in plain rounds at the present context.

    What a length cost so far corrects its calibrated cost at every context by one ratio, which
    corrects other lengths too.  Without a calibration the ratios are the costs themselves, and
    those of lengths between measured ones are interpolated.
    """

    def __init__(self, times: RoundTimes) -> None:
        """times: shared by the costs of all kinds of drafts."""
        self._times = times
        self._places: dict[int, int] = {}
        self._warm: set[int] = set()
        self._calibrated: Collection[int] = ()
        self._unit, self._plain_seconds = [1.0] * len(LENGTHS), 1.0
        self.steps: list[float] = []
        """Cost c(gamma) / c(0) for gamma 0 to MAX_AUTO_GAMMA."""
        self.lengths: list[int] = []
        """Draft lengths whose cost is measured or calibrated."""
        self._compute()

    def move(self, calibrated: Mapping[int, float]) -> None:
        """Take the calibrated seconds of the present context, by length from 0; {} if unknown."""
        if calibrated:
            plain = self._plain_seconds = calibrated[0]
            self._unit = _line({gamma: seconds / plain for gamma, seconds in calibrated.items()})
        self._calibrated = [gamma for gamma in calibrated if gamma]
        self._compute()

    def observe(self, gamma: int, seconds: float, *, repeats: bool = True) -> float | None:
        """Observe a round; returns its cost, from the usual one to FAR times as much, or far less.

        repeats: True if the round before drafted as much, as for `RoundTimes.observe`.
        The limit is for rounds that other programs slow down. The first round of a length runs
        slower than later ones: up to FAR times its calibrated cost it says nothing and costs what
        is usual, and so does the first of all. Returns None for a first round that is not
        calibrated and took far longer than plain decoding: it compiled kernels.
        """
        steps, is_first = max(seconds, 1e-9) / self._plain_seconds, not self._times.rounds
        if not is_first and self._warms_up(gamma, steps / self._times.estimate(PLAIN)):
            return self.steps[gamma] if gamma in self._calibrated else None
        place = self._place(gamma)
        is_usual = self._times.observe(place, steps / self._unit[gamma], repeats=repeats)
        usual = self._unit[gamma] * self._times.estimate(place) if gamma else 1.0
        cost = usual if is_first else steps / self._times.estimate(PLAIN)
        return max(usual, min(cost, FAR * usual)) if is_usual else cost

    def spread(self, gamma: int) -> float:
        """How uncertain the cost of a length is, as a logarithm from LEAST to MOST."""
        known = gamma in self._places
        return max(min(self._times.spread(self._places[gamma]), MOST), LEAST) if known else MOST

    def update(self) -> None:
        """Take what rounds said since the last call."""
        if self._places and self._computed < self._times.rounds:
            self._compute()

    def _warms_up(self, gamma: int, cost: float) -> bool:
        """True once for a length, if its first round was slow as first rounds are."""
        if not gamma or {gamma} & (self._places.keys() | self._warm):
            return False
        self._warm.add(gamma)
        usual = self.steps[gamma]
        return usual < cost < FAR * usual if gamma in self._calibrated else cost > FAR * (1 + gamma)

    def _place(self, gamma: int) -> int:
        """The place of a length in the estimates, new at its first round."""
        if gamma and gamma not in self._places:
            self._places[gamma] = self._times.add(is_calibrated=bool(self._calibrated))
        return self._places.get(gamma, PLAIN)

    def _compute(self) -> None:
        self._computed = self._times.rounds
        self.lengths = sorted({*self._places, *self._calibrated})
        self.steps = [unit * ratio for unit, ratio in zip(self._unit, self._ratios(), strict=True)]

    def _ratios(self) -> list[float]:
        """What lengths cost, divided by their calibrated costs; the costs if uncalibrated."""
        if not self._calibrated:
            costs = {gamma: self._times.estimate(place) for gamma, place in self._places.items()}
            return _line({0: 1.0} | costs)
        places = [self._places.get(gamma, CALIBRATED) for gamma in LENGTHS[1:]]
        return [1.0, *map(self._times.estimate, places)]


def _line(points: Mapping[int, float]) -> list[float]:
    """Interpolate linearly between known lengths; 1 + gamma if only c(0) is known.

    Beyond the longest known length the line goes on but never falls.
    """
    known = sorted(points)
    if len(known) == 1:
        return [1.0 + gamma for gamma in LENGTHS]
    values: list[float] = []
    for low, high in pairwise(known):
        slope = (points[high] - points[low]) / (high - low)
        values += [points[low] + slope * step for step in range(high - low)]
    rise = max(slope, 0.0)
    return values + [points[high] + rise * step for step in range(LENGTHS.stop - high)]
