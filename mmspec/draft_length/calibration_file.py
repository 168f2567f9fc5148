"""The file of `mmspec calibrate`: seconds of target forwards and drafted tokens by context.

The file is optional: if it is missing or unreadable, costs are measured during decoding.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.ground.json_file import Range

TREE_NODES = (8, 16, 32, 60)
"""Numbers of nodes of the trees among which `--gamma auto` chooses."""
ROWS = (*range(1, MAX_AUTO_GAMMA + 2), *(nodes + 1 for nodes in TREE_NODES if nodes > 8))
"""Numbers of rows of the target forwards that are measured: the last token and each draft."""
BRANCHES = range(1, 5)
"""Numbers of branches of the drafts that are measured."""
CONTEXTS = (64, 512, 2048, 8192)
"""Context lengths at which costs are measured, as far as the models have positions."""

Curves = Mapping[int, Mapping[int, float]]
"""Seconds by number of rows, branches or tokens at each measured context length."""
Costs = Callable[[int], Mapping[int, float]]
"""Function from a context length to the seconds of a round by draft length from 0."""
Context = Annotated[int, Range(0, 1_000_000_000)]
Rows = Annotated[int, Range(1, ROWS[-1])]
Branches = Annotated[int, Range(BRANCHES.start, BRANCHES.stop - 1)]
Seconds = Annotated[float, Range(1e-9, 1e6)]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Median seconds measured on this machine by context; empty if nothing was measured."""

    target: Mapping[Context, Mapping[Rows, Seconds]] = field(default_factory=dict)
    """Seconds of a target forward by its number of rows."""
    draft: Mapping[Context, Mapping[Branches, Seconds]] = field(default_factory=dict)
    """Seconds of each further token of a chain by the number of branches (views in one batch)."""
    level: Mapping[Context, Mapping[Branches, Seconds]] = field(default_factory=dict)
    """Seconds of one drafted level of a dynamic tree of the default width, by branches."""
    first: Mapping[Context, Mapping[Branches, Seconds]] = field(default_factory=dict)
    """Seconds of a draft of a single token, by branches: a draft also takes time to begin."""

    def round_costs(self, branches: int, context: int) -> dict[int, float]:
        """Seconds c(gamma) of a round that drafts a chain, by gamma from 0 to MAX_AUTO_GAMMA.

        branches: 0 if no model drafts. Empty if target or draft were not measured.
        """
        target = at_context(self.target, context)
        token = at_context(self.draft, context).get(branches) if branches else 0.0
        if token is None or 1 not in target:
            return {}
        first = at_context(self.first, context).get(branches, token)
        drafted = [0.0, *(first + more * token for more in range(MAX_AUTO_GAMMA))]
        return {g: target[g + 1] + seconds for g, seconds in enumerate(drafted) if g + 1 in target}

    def row_costs(self, context: int) -> dict[int, float]:
        """Seconds of a round by the nodes that are verified, if drafting takes no time."""
        return {rows - 1: cost for rows, cost in at_context(self.target, context).items()}

    def tree_costs(self, nodes: int, branches: int, context: int) -> dict[int, float]:
        """Seconds of a round that drafts a tree, by its number of levels, and of a plain one, 0.

        A narrower level takes hardly less time than one of the default width. branches: 0 if no
        model drafts. Empty if trees were not measured.
        """
        target = at_context(self.target, context)
        level = at_context(self.level, context).get(branches) if branches else 0.0
        if level is None or nodes + 1 not in target:
            return {}
        depths = range(1, MAX_AUTO_GAMMA + 1)
        return {0: target[1]} | {depth: target[nodes + 1] + depth * level for depth in depths}


def interpolate(points: Mapping[int, float], place: int) -> float:
    """The seconds at `place` on the line through `points`, which are seconds by place.

    Before the first point they are those there; beyond the last the line goes on and never falls.
    """
    places = sorted(points)
    high = bisect_left(places, place)
    if high == 0 or len(places) == 1:
        return points[places[0]]
    high = min(high, len(places) - 1)
    start, end = places[high - 1], places[high]
    rise = points[end] - points[start]
    if place > end:
        rise = max(rise, 0.0)
    return points[end] + rise * (place - end) / (end - start)


def at_context(curves: Curves, context: int) -> dict[int, float]:
    """Seconds at `context` by number; empty if nothing was measured.

    Attention costs time in proportion to the context, all else does not depend on it.
    """
    longer = (measured for measured in curves if measured >= context)
    numbers = curves.get(min(longer, default=max(curves, default=0)), ())
    points = {n: {at: costs[n] for at, costs in curves.items() if n in costs} for n in numbers}
    return {number: interpolate(points[number], context) for number in numbers}
