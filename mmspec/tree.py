"""Trees of drafted tokens: several guesses for every place, verified in one forward.

A static tree has the same shape in every round: so many children for each node of a level, as in
Medusa (Cai et al. 2024, section 2.1.2).  A dynamic one grows where the draft is sure of itself
(EAGLE-2, Li et al. 2024).  Here are the shapes, on the host; `mmspec.growth` grows them.
"""

from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import groupby

from mmspec.errors import UsageError

WIDTH, NODES = 10, 60
"""What a tree has where nothing else is said (EAGLE-2's own)."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A shape and a budget of drafted nodes; raises UsageError for what is out of range."""

    branching: tuple[int, ...] = ()
    """Children of each node, level by level, of a static tree; empty for a dynamic one."""
    width: int = WIDTH
    """Of a dynamic tree: the nodes expanded per level, and the children of each."""
    nodes: int = NODES
    """Drafted nodes at most; the root, the last token, is not one."""

    def __post_init__(self) -> None:
        """Refuse numbers below one."""
        if min(self.branching, default=1) < 1:
            raise UsageError(f"--tree {self.word}: every level needs at least 1 child")
        for name, value in (("width", self.width), ("nodes", self.nodes)):
            if value < 1:
                raise UsageError(f"--tree-{name} {value}: give a number of at least 1")

    @property
    def word(self) -> str:
        """'dynamic', or the branching such as '3,2,1'."""
        return ",".join(map(str, self.branching)) or "dynamic"

    def depth(self, k: int) -> int:
        """The levels of a draft whose paths may have at most k tokens."""
        return min(k, len(self.branching)) if self.branching else k


def parse_tree(word: str, width: int = WIDTH, nodes: int = NODES) -> Tree | None:
    """Read 'none' (a chain), 'dynamic' or a branching such as '3,2,1'; raises UsageError."""
    if word == "none":
        return None
    if word == "dynamic":
        return Tree((), width, nodes)
    try:
        branching = tuple(int(part) for part in word.split(","))
    except ValueError as error:
        raise UsageError(
            f"--tree {word!r}: give none, dynamic, or the children of each level, such as 3,2,1"
        ) from error
    return Tree(branching, width, nodes)


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a static tree: n nodes, e of which have children."""

    count: int
    """Tokens that each node expanded before, or the root, has to propose."""
    picks: tuple[int, ...]
    """[n] which of these proposals [expanded nodes, count], laid flat, a node takes."""
    inner: tuple[int, ...]
    """[e] the nodes to expand, by their places in this level."""
    origins: tuple[int, ...]
    """[e] the parent of each of these, by its place among the nodes expanded before."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A static tree of n nodes, level by level."""

    parents: tuple[int, ...]
    """[n] the node that each follows, -1 for the root."""
    levels: tuple[Level, ...]


Path = tuple[int, ...]
"""Ranks from the root down to a node, 0 for the likeliest child; the root's is empty."""


@lru_cache
def shape(branching: tuple[int, ...], nodes: int) -> Shape:
    """The Cartesian tree of `branching`, cut to `nodes`.

    Kept are the nodes with the least product of (rank + 1) along their paths, of equals the
    shallower, then those of lower ranks; a node's ancestors are always among them.
    """
    paths = sorted(_kept(branching, nodes), key=lambda path: (len(path), path))
    places = {path: place for place, path in enumerate(paths)}
    parents = tuple(places.get(path[:-1], -1) for path in paths)
    levels: list[Level] = []
    expanded: list[Path] = [()]
    for _, group in groupby(paths, key=len):
        level, expanded = _level(list(group), expanded, places)
        levels.append(level)
    return Shape(parents, tuple(levels))


def _kept(branching: tuple[int, ...], nodes: int) -> list[Path]:
    """The best paths, found best first: their number is bounded, the tree's may be huge."""
    heap: list[tuple[int, int, Path]] = [(1, 1, (0,))]
    kept: list[Path] = []
    while heap and len(kept) < nodes:
        product, size, path = heappop(heap)
        kept.append(path)
        rank = path[-1]
        if rank + 1 < branching[size - 1]:
            sibling = product // (rank + 1) * (rank + 2)
            heappush(heap, (sibling, size, (*path[:-1], rank + 1)))
        if size < len(branching):
            heappush(heap, (product, size + 1, (*path, 0)))
    return kept


def _level(
    paths: list[Path], expanded: list[Path], places: dict[Path, int]
) -> tuple[Level, list[Path]]:
    """One level and those of its paths that have children."""
    rows = {path: row for row, path in enumerate(expanded)}
    count = max(path[-1] for path in paths) + 1
    picks = tuple(rows[path[:-1]] * count + path[-1] for path in paths)
    # Where a node has any child, it has the likeliest one.
    inner = tuple(place for place, path in enumerate(paths) if (*path, 0) in places)
    parents = [paths[place] for place in inner]
    origins = tuple(rows[path[:-1]] for path in parents)
    return Level(count, picks, inner, origins), parents
