"""Costs measured at several context lengths, and between them."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import pairwise

Seconds = Mapping[int, float]
"""Seconds by a number of rows, branches or tokens."""
Curves = Mapping[int, Seconds]
"""Seconds at each measured context length, in positions."""
Costs = Callable[[int], Seconds]
"""Function from a context length to the seconds of a round by draft length from 0."""


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
    """Seconds at 0 to `most` on the line through `points` from 0 on; it goes on but never falls."""
    seconds, slope = [points[0]], 0.0
    for start, end in pairwise(sorted(points)):
        slope = (points[end] - points[start]) / (end - start)
        seconds += (points[start] + slope * step for step in range(1, end - start + 1))
    seconds += (seconds[-1] + max(slope, 0.0) * step for step in range(1, most + 2 - len(seconds)))
    return seconds[: most + 1]
