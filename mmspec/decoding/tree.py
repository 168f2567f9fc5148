"""Tree shapes: several drafted tokens per position, verified in one forward.

A static tree has the same shape in every round, with a fixed number of children for each node of a
level, as in Medusa (Cai et al. 2024, section 2.1.2).  A dynamic tree grows where the draft is most
confident (EAGLE-2, Li et al. 2024).  Shapes are computed on the host; `tree_drafting` drafts them.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import groupby
from math import isqrt

from mmspec.ground.errors import UsageError
from mmspec.ground.settings import convert_numbers, is_whole

WIDTH, NODES = 10, 60
"""Default width and number of nodes of a tree (those of EAGLE-2)."""

MOST_NODES = 500
"""The most nodes of a tree: a backend may keep buffers for as many."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree's shape and node budget; raises UsageError for numbers out of range."""

    branching: tuple[int, ...] = ()
    """Children per node, level by level, of a static tree; empty for a dynamic one."""
    width: int = WIDTH
    """Nodes expanded per level of a dynamic tree, and children of each."""
    nodes: int = NODES
    """The most drafted nodes; the root, which is the last token, does not count."""

    def __post_init__(self) -> None:
        convert_numbers(self, "width", "nodes")
        levels: object = self.branching
        if not isinstance(levels, tuple) or not {*map(type, levels)} <= {int}:
            raise UsageError(f"`branching={levels!r}`: give whole numbers, such as (3, 2, 1)")
        if min(self.branching, default=1) < 1:
            raise UsageError(f"`tree={self.spec}`: give at least 1 child at every level")
        for name, value in (("width", self.width), ("nodes", self.nodes)):
            if not is_whole(value, 1):
                raise UsageError(f"`{name}={value!r}`: give a whole number of at least 1")
        if self.nodes > MOST_NODES:
            raise UsageError(f"`nodes={self.nodes}`: give a number of at most {MOST_NODES}")

    @property
    def spec(self) -> str:
        """The value of --tree that names this tree: 'dynamic', or the branching such as '3,2,1'."""
        return ",".join(map(str, self.branching)) or "dynamic"

    def within(self, nodes: int | None, gamma: int) -> "Tree | None":
        """This tree with at most `nodes` nodes; None, a chain, if these are gamma or less.

        nodes: None for all of them.  A dynamic tree that shrinks is narrower too.
        """
        if nodes is None:
            return self
        if nodes <= gamma:
            return None
        if nodes >= self.nodes:
            return self
        narrow = isqrt(round(1.7 * nodes))  # 3 for 8 nodes, 5 for 16, 10 for 60
        width = self.width if self.branching else min(self.width, narrow)
        return replace(self, width=width, nodes=nodes)

    def depth(self, gamma: int) -> int:
        """The depth of a draft whose paths may have at most gamma tokens."""
        return min(gamma, self.nodes, len(self.branching) or gamma)


def parse_tree(spec: str, width: int = WIDTH, nodes: int = NODES) -> Tree | None:
    """Parse 'none' (a chain), 'dynamic' or a branching such as '3,2,1'; raises UsageError."""
    if spec == "none":
        return None
    if spec == "dynamic":
        return Tree((), width, nodes)
    try:
        branching = tuple(int(part) for part in spec.split(","))
    except ValueError as error:
        raise UsageError(
            f"`tree={spec!r}`: give none, dynamic, or the children of each level, such as 3,2,1"
        ) from error
    return Tree(branching, width, nodes)


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a static tree: n nodes, e of which have children."""

    count: int
    """Number of children proposed for each expanded node of the level above, or for the root."""
    picks: tuple[int, ...]
    """[n] each node's index in the proposals, flattened from [expanded nodes, count]."""
    inner: tuple[int, ...]
    """[e] the nodes to expand, as indices into this level."""
    origins: tuple[int, ...]
    """[e] parents of the nodes to expand, as indices into the nodes expanded in the level above."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A static tree of n nodes, level by level."""

    parents: tuple[int, ...]
    """[n] index of each node's parent, -1 for the root."""
    levels: tuple[Level, ...]

    @property
    def outputs(self) -> tuple[int, ...]:
        """[n + 1] place of the root and of each node among those that are expanded, or -1."""
        places = {node: place for place, node in enumerate(sorted({*self.parents}))}
        return tuple(places.get(node, -1) for node in range(-1, len(self.parents)))


Ranks = tuple[int, ...]
"""A node as the ranks from the root down to it, 0 for the likeliest child; empty for the root."""


@lru_cache
def shape(branching: tuple[int, ...], nodes: int) -> Shape:
    """The static tree of `branching`, limited to `nodes` nodes.

    It keeps the nodes with the smallest product of (rank + 1) along their paths; ties go to the
    shallower node, then to lower ranks. A node's ancestors are always kept with it.
    """
    paths = sorted(_best_paths(branching, nodes), key=lambda path: (len(path), path))
    places = {path: place for place, path in enumerate(paths)}
    parents = tuple(places.get(path[:-1], -1) for path in paths)
    levels: list[Level] = []
    above: list[Ranks] = [()]
    for _, group in groupby(paths, key=len):
        level, above = _level(list(group), above, places)
        levels.append(level)
    return Shape(parents, tuple(levels))


def _best_paths(branching: tuple[int, ...], nodes: int) -> list[Ranks]:
    """The paths of the nodes to keep, best first; searched without building the whole tree."""
    heap: list[tuple[int, int, Ranks]] = [(1, 1, (0,))]
    paths: list[Ranks] = []
    while heap and len(paths) < nodes:
        product, size, path = heappop(heap)
        paths.append(path)
        rank = path[-1]
        if rank + 1 < branching[size - 1]:
            sibling = product // (rank + 1) * (rank + 2)
            heappush(heap, (sibling, size, (*path[:-1], rank + 1)))
        if size < len(branching):
            heappush(heap, (product, size + 1, (*path, 0)))
    return paths


def _level(
    paths: list[Ranks], above: list[Ranks], places: dict[Ranks, int]
) -> tuple[Level, list[Ranks]]:
    """The level made of `paths`, and those of them that have children."""
    rows = {path: row for row, path in enumerate(above)}
    count = max(path[-1] for path in paths) + 1
    picks = tuple(rows[path[:-1]] * count + path[-1] for path in paths)
    # If a node has children, the likeliest is among them.
    inner = tuple(place for place, path in enumerate(paths) if (*path, 0) in places)
    parents = [paths[place] for place in inner]
    origins = tuple(rows[path[:-1]] for path in parents)
    return Level(count, picks, inner, origins), parents
