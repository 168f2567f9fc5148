"""What a tree of n nodes gains over a chain, from how often a chain's token is accepted.

The model: the draft's likeliest token is right with probability a; if all that the draft ranks
higher are wrong, its next token is right with probability SECOND, at most a.  A dynamic tree keeps
the n nodes that are accepted most likely.
"""

from collections.abc import Mapping
from functools import lru_cache
from heapq import nlargest

from mmspec.decoding.tree import width_for
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.costs import Seconds

SECOND = 0.35
"""Probability that the next token is right: below the 0.4 to 0.6 of bundled heads, for caution."""


@lru_cache(maxsize=1024)
def tree_tokens(acceptance: float, nodes: int) -> tuple[float, ...]:
    """E(gamma), the expected tokens of a round, for trees of 0 to MAX_AUTO_GAMMA levels.

    acceptance: a, above 0 and below 1.
    """
    second, width = min(SECOND, acceptance), width_for(nodes)
    later = [(1 - acceptance) * second * (1 - second) ** rank for rank in range(width - 1)]
    level, tree, tokens = [1.0], list[float](), [1.0]
    for _ in range(MAX_AUTO_GAMMA):
        found = [chance * rank for chance in level for rank in (acceptance, *later)]
        level, tree = nlargest(width, found), nlargest(nodes, tree + found)
        tokens.append(1 + sum(tree))
    return tuple(tokens)


def a_tree_pays(chains: Seconds, trees: Mapping[int, Seconds]) -> bool:
    """True if at an acceptance of 0.6 or more a tree is faster than every chain.

    chains, trees: seconds of a round by gamma, those of trees by number of nodes.
    """
    for acceptance in (0.6, 0.7, 0.8, 0.9, 0.95):
        chain = max(sum(acceptance**n for n in range(g + 1)) / cost for g, cost in chains.items())
        for nodes, costs in trees.items():
            tokens = tree_tokens(acceptance, nodes)
            if any(tokens[gamma] / cost > chain for gamma, cost in costs.items() if gamma):
                return True
    return False
