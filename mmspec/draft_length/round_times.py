"""Estimates the speed of the machine and the costs of drafts together, from seconds of rounds.

A machine's speed changes while it decodes: other programs, heat, memory.  Lengths that are drafted
at different times are comparable only beside an estimate of that speed.
"""

from math import exp, log, sqrt

PLAIN = 0
"""Place of plain rounds."""
CALIBRATED = 1
"""Place of what the costs of all calibrated drafts have in common."""
NOISE = 0.1
"""Spread of a round's seconds around what they should be, as a logarithm, as all spreads here."""
CHANGE = 0.2
"""Further spread of a draft's round after one of another length."""
FIRST = 0.7
"""Further spread of the first round; that of the n-th is FIRST / n^2: first rounds warm up."""
WANDER = 0.03
"""Spread of the change of the machine's speed from one round to the next."""
UNKNOWN = 10.0
"""Spread of what nothing is known of."""
COMMON, OWN = 0.3, 0.12
"""Spread of calibrated costs: of the error that they have in common, and of each alone."""
SURPRISE = 2.5
"""Number of spreads from which a round's seconds are a surprise."""
SLOW = 2.0
"""Ratio from which a draft's seconds beside the expected ones may be chance, if not a surprise."""
KNOWN = 0.2
"""Spread below which a cost is known."""
DOUBT = 1.25
"""Ratio of plain rounds' time, as drafts suggest it, to the measured one that is in doubt."""


class RoundTimes:
    """A Kalman filter over logarithms: the time of a plain round, and each draft's cost in it.

    A round takes (time of a plain round) x (cost of its draft) x (noise). The cost of a plain round
    is 1, that of a draft is constant; the time of a plain round wanders. What one calibrated draft
    costs says most about the others, too: a calibration is off for all of them alike.
    """

    def __init__(self) -> None:
        self._means = [0.0, 0.0]
        self._covariance = [[UNKNOWN**2, 0.0], [0.0, COMMON**2]]  # lists: faster if this small
        self._parts: list[tuple[int, ...]] = [(PLAIN,), (PLAIN, CALIBRATED)]
        self._measured_plain, self._noise = 0.0, NOISE**2
        self._too_fast: list[tuple[int, float]] = []
        self._too_slow: tuple[int, float] | None = None
        self.rounds = 0
        """Number of observed rounds."""
        self.waits = False
        """True if the last round was a surprisingly slow draft, which may be chance."""

    def add(self, *, is_calibrated: bool) -> int:
        """Add a draft; returns its place.  Its cost is 1 if calibrated, else unknown."""
        place = len(self._means)
        self._means.append(0.0)
        self._covariance = [[*row, 0.0] for row in self._covariance]
        own = OWN if is_calibrated else UNKNOWN
        self._covariance.append([0.0] * place + [own**2])
        self._parts.append((PLAIN, CALIBRATED, place) if is_calibrated else (PLAIN, place))
        return place

    def forget_speed(self) -> None:
        """Nothing is known of the time of a plain round; what drafts cost in it stays."""
        for row in self._covariance:
            row[PLAIN] = 0.0
        self._covariance[PLAIN] = [UNKNOWN**2] + [0.0] * (len(self._means) - 1)

    def estimate(self, place: int) -> float:
        """Cost of the draft at `place` in plain rounds; the time of a plain round at PLAIN."""
        return exp(sum(self._means[part] for part in self._cost_parts(place)))

    def spread(self, place: int) -> float:
        """Spread of the estimate at `place`, as a logarithm."""
        parts = self._cost_parts(place)
        return sqrt(sum(self._covariance[one][other] for one in parts for other in parts))

    def _cost_parts(self, place: int) -> tuple[int, ...]:
        """What a draft's cost consists of; the time of a plain round at PLAIN."""
        return self._parts[place][1:] if place else (PLAIN,)

    @property
    def in_doubt(self) -> bool:
        """True if, going by drafts, plain rounds take DOUBT times as long as measured, or as short.

        Then the machine's speed has changed, drafts cost other than believed, or the last plain
        rounds were disturbed: then drafts are surprisingly fast, or faster than plain rounds.
        """
        return bool(self._too_fast) or abs(self._means[PLAIN] - self._measured_plain) > log(DOUBT)

    def observe(self, place: int, ratio: float, *, repeats: bool = True) -> bool:
        """Observe a round of the draft at `place`, or PLAIN, that took `ratio`.

        repeats: True if the round before drafted as much; others often run slower and count less.
        Returns False if the round is surprisingly fast for a draft: believed after one more plain
        round.
        """
        self.rounds += 1
        self._covariance[PLAIN][PLAIN] += WANDER**2
        self._noise = NOISE**2 + (0.0 if repeats or place == PLAIN else CHANGE**2)
        self.waits = False
        if place != PLAIN:
            if self._is_too_fast(place, ratio):
                self._too_fast.append((place, ratio))
                return False
            if self._may_be_chance(place, ratio):
                return True
        excess = self._learn(place, ratio)
        if place == PLAIN:
            agrees = abs(excess) <= log(DOUBT)
            self._measured_plain = self._means[PLAIN] if agrees else log(ratio)
            for each in self._too_fast:
                self._learn(*each)
            self._too_fast.clear()
        return True

    def _is_too_fast(self, place: int, ratio: float) -> bool:
        """True if a draft is surprisingly fast, or at its first round faster than plain ones."""
        excess = self._excess(place, ratio)
        is_new = self._covariance[place][place] >= UNKNOWN**2
        return excess < (-log(DOUBT) if is_new else -self._limit(place))

    def _may_be_chance(self, place: int, ratio: float) -> bool:
        """True if a draft is surprisingly slow for the first time: another program may have run.

        The second slow draft, or the same one if it is slow again, makes both count.
        """
        limit = min(self._limit(place), log(SLOW))
        is_slow = self._excess(place, ratio) > limit and self._is_known(place)
        earlier = self._too_slow
        self.waits = is_slow and earlier is None
        if self.waits:
            self._too_slow = place, ratio
        elif earlier and (is_slow or earlier[0] == place):
            self._too_slow = None
            if is_slow:
                self._learn(*earlier)
        return self.waits

    def _is_known(self, place: int) -> bool:
        """True if something is known of the machine's speed and of the draft's cost."""
        return max(self._covariance[part][part] for part in self._parts[place]) < 1.0

    def _learn(self, place: int, ratio: float) -> float:
        """Take a round of which this is the place and time; returns its excess.

        A surprise makes its cost less certain. A surprisingly slow round counts only as far as it
        is no surprise, for another program may have run; if the cost is known, the slower the round
        the less it counts. Nothing makes a round fast by chance.
        """
        excess, limit = self._excess(place, ratio), self._limit(place)
        if excess < -limit:
            self._doubt(place, excess + limit)
        is_known = self.spread(place) < KNOWN
        doubtful = (max(excess, 0) / SURPRISE) ** 2 if is_known else 0.0
        counted = excess if is_known else min(excess, limit)
        self._correct(place, counted, max(self._variance(place), doubtful))
        if excess > limit:
            self._doubt(place, excess - limit)
        return excess

    def _excess(self, place: int, ratio: float) -> float:
        """How far the round's logarithm is above the expected one."""
        return log(ratio) - sum(self._means[part] for part in self._parts[place])

    def _limit(self, place: int) -> float:
        """The excess from which a round is a surprise."""
        return SURPRISE * sqrt(self._variance(place))

    def _correct(self, place: int, excess: float, variance: float) -> None:
        """Move all estimates towards a round whose logarithm was `excess` above the expected.

        variance: how far such a round may be off.
        """
        shared = self._shared(place)
        gains = [each / variance for each in shared]
        self._means = [mean + gain * excess for mean, gain in zip(self._means, gains, strict=True)]
        self._covariance = [
            [old - gain * each for old, each in zip(row, shared, strict=True)]
            for row, gain in zip(self._covariance, gains, strict=True)
        ]

    def _shared(self, place: int) -> list[float]:
        """[n] covariance of each estimate with the round's expected logarithm."""
        rows = [self._covariance[part] for part in self._parts[place]]
        return [sum(column) for column in zip(*rows, strict=True)]

    def _variance(self, place: int) -> float:
        """Variance of the round's logarithm around the expected one."""
        shared = self._shared(place)
        known = sum(shared[part] for part in self._parts[place])
        return known + self._noise + (FIRST / self.rounds**2) ** 2

    def _doubt(self, place: int, excess: float) -> None:
        """Make the estimate at `place` less certain, after a round `excess` beyond the limit."""
        self._covariance[place][place] += (excess / 2) ** 2
