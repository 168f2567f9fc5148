"""Estimates how many tokens a round of a dynamic tree yields, before it is drafted.

The draft's likeliest token is right with probability a; if all that the draft ranks higher are
wrong, its next token is right with probability SECOND, at most a.  A tree of n nodes keeps those
that are accepted most likely.
"""

from collections.abc import Mapping
from functools import lru_cache
from heapq import heappop, heappush
from itertools import accumulate

SECOND = 0.45
"""Probability that the next token is right; heads and draft of the bundled pair have 0.4 to 0.6."""

Path = tuple[int, ...]
"""A node as the ranks from the root down to it, 0 for the likeliest child."""


@lru_cache(maxsize=1024)
def tree_tokens(percent: int, nodes: int, most: int) -> tuple[float, ...]:
    """E(gamma), the expected tokens of a round, for trees of 0 to `most` levels.

    percent: 100 a, from 1 to 99.
    """
    trees = (surest_paths(percent / 100, nodes, depth) for depth in range(1, most + 1))
    return (1.0, *(1 + sum(chance for chance, _ in tree) for tree in trees))


def a_tree_pays(chains: Mapping[int, float], trees: Mapping[int, Mapping[int, float]]) -> bool:
    """True if at an acceptance of 0.6 or more a tree is faster than every chain.

    chains, trees: seconds of a round by gamma, those of trees by number of nodes.
    """
    for percent in (60, 70, 80, 90):
        tokens = [*accumulate((percent / 100) ** place for place in range(max(chains) + 1))]
        chain = max(tokens[gamma] / cost for gamma, cost in chains.items())
        for nodes, costs in trees.items():
            own = tree_tokens(percent, nodes, max(costs))
            if any(own[gamma] / cost > chain for gamma, cost in costs.items() if gamma):
                return True
    return False


def surest_paths(
    acceptance: float, nodes: int, depth: int, second: float = SECOND
) -> list[tuple[float, Path]]:
    """The `nodes` nodes of up to `depth` levels that are likeliest to be accepted, likeliest first.

    Each with its probability; a node never comes before its parent.
    """
    second = min(second, acceptance)
    heap: list[tuple[float, Path]] = [(-acceptance, (0,))]
    paths: list[tuple[float, Path]] = []
    while len(paths) < nodes:
        chance, path = heappop(heap)
        paths.append((-chance, path))
        *above, rank = path
        next_rank = 1 - second if rank else second * (1 - acceptance) / acceptance
        heappush(heap, (chance * next_rank, (*above, rank + 1)))
        if len(path) < depth:
            heappush(heap, (chance * acceptance, (*path, 0)))
    return paths
