"""Costs of rounds in plain rounds, from a calibration and from the rounds of a session.

gamma: drafted tokens of a chain, levels of a tree.
"""

from collections import deque
from collections.abc import Collection, Mapping
from statistics import median_low

from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA

LENGTHS = range(MAX_AUTO_GAMMA + 1)
"""Draft lengths with a cost, from plain decoding on."""
SAMPLES = 9
"""Number of latest rounds whose median is a cost."""
FAR = 2.0
"""Ratio from which a round's cost is far off: its own, or that of plain rounds at its context."""
DOUBT = 1.25
"""Ratio of measured to calibrated seconds from which the speed of plain rounds is in doubt."""


class PlainCost:
    """Seconds of a plain round at the present context: calibrated ones times today's ratio.

    The calibration weighs as much as one round: a single slow round, as the first of a process is,
    changes nothing.  Without a calibration the latest plain rounds are the cost, until the context
    is FAR longer or shorter than theirs.
    """

    def __init__(self) -> None:
        self._ratios: deque[float] = deque(maxlen=SAMPLES)
        self._calibrated: float | None = None
        self._context = self._measured_at = 0

    def move(self, context: int, calibrated: float | None) -> None:
        """Go to `context` positions, where plain rounds took `calibrated` seconds."""
        self._calibrated, self._context = calibrated, context
        here, there = context + 256, self._measured_at + 256  # short contexts cost the same
        if not calibrated and not 1 / FAR <= here / there <= FAR:
            self._ratios.clear()

    @property
    def rounds(self) -> int:
        """Number of measured rounds in the median."""
        return len(self._ratios)

    @property
    def seconds(self) -> float:
        """Seconds of a plain round here."""
        prior = [1.0] if self._calibrated or not self._ratios else []
        return (self._calibrated or 1.0) * median_low([*prior, *self._ratios])

    def observe(self, seconds: float) -> None:
        """Observe a plain round."""
        self._ratios.append(max(seconds, 1e-9) / (self._calibrated or 1.0))
        self._measured_at = self._context


class RoundCosts:
    """Cost of a round by draft length, in plain rounds at the present context.

    A measured round corrects the calibrated cost of its length at every context by one ratio, the
    median; lengths between measured ones are corrected by interpolated ratios.  Without a
    calibration the ratios are the costs themselves.
    """

    def __init__(self) -> None:
        self._ratios: dict[int, deque[float]] = {}
        self._calibrated: Collection[int] = ()
        self._unit = [1.0] * len(LENGTHS)
        self.steps: list[float] = []
        """Cost c(gamma) / c(0) for gamma 0 to MAX_AUTO_GAMMA."""
        self.lengths: list[int] = []
        """Draft lengths whose cost is measured or calibrated."""
        self._update()

    def move(self, calibrated: Mapping[int, float]) -> None:
        """Take the calibrated seconds of the present context, by length from 0; {} if unknown."""
        if calibrated:
            self._unit = _line({gamma: s / calibrated[0] for gamma, s in calibrated.items()})
        self._calibrated = [gamma for gamma in calibrated if gamma]
        self._update()

    @property
    def in_doubt(self) -> bool:
        """True if a measured length contradicts the calibration, so that plain rounds may too."""
        medians = [median_low(ratios) for ratios in self._ratios.values() if ratios]
        return not all(1 / DOUBT < ratio < DOUBT for ratio in medians)

    def observe(self, gamma: int, steps: float) -> float | None:
        """Observe a round that took `steps` plain rounds; returns its cost, at most FAR the usual.

        The limit is for rounds that other programs slow down. The first round of all costs what is
        usual: its forwards are slow. Returns None for the first round of a length if it took far
        longer than plain decoding would: it compiled kernels.
        """
        limit, is_first = FAR if self._ratios else 1.0, gamma not in self._ratios
        ratios = self._ratios.setdefault(gamma, deque(maxlen=SAMPLES))
        if is_first and steps > FAR * (1 + gamma):
            return None
        ratios.append(steps / self._unit[gamma])
        self._update()
        return min(steps, limit * self.steps[gamma])

    def _update(self) -> None:
        first = [1.0] if self._calibrated else []  # a calibrated cost weighs as much as one round
        points = {g: median_low([*first, *ratios]) for g, ratios in self._ratios.items() if ratios}
        self.lengths = sorted({*points, *self._calibrated})
        ratios = _line({0: 1.0} | points, flat=bool(self._calibrated))
        self.steps = [unit * ratio for unit, ratio in zip(self._unit, ratios, strict=True)]


def _line(points: Mapping[int, float], *, flat: bool = False) -> list[float]:
    """Interpolate linearly between known lengths; 1 + gamma if only c(0) is known.

    Beyond the longest known length the line goes on but never falls; with `flat` it stays.
    """
    known = sorted(points)
    if len(known) == 1:
        return [1.0 + gamma * (not flat) for gamma in LENGTHS]
    values: list[float] = []
    for gamma in LENGTHS:
        at = next((place for place, high in enumerate(known) if high >= gamma), len(known))
        low, high = (known[at - 1], known[at]) if 0 < at < len(known) else known[-2:]
        slope = (points[high] - points[low]) / (high - low)
        if at == len(known):
            low, slope = high, 0.0 if flat else max(slope, 0.0)
        values.append(points[gamma] if gamma in points else points[low] + slope * (gamma - low))
    return values
