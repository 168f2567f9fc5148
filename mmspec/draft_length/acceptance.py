"""Estimates how many drafted tokens a round accepts: of a chain, from the rounds before it.

For a tree of n nodes there is a model: the draft's likeliest token is right with probability a; if
all that the draft ranks higher are wrong, its next token is right with probability SECOND, at most
a. A dynamic tree keeps the n nodes that are accepted most likely.
"""

from collections.abc import Mapping
from functools import lru_cache
from heapq import heappop, heappush
from itertools import accumulate
from math import exp

from mmspec.decoding.acceptance import FirstChoices
from mmspec.decoding.statistics import Round

MAX_AUTO_GAMMA = 8
"""Number of tokens in the longest draft that an adaptive length tries."""
MEMORY = 50
"""Rounds that count for an estimate, and rounds between trials; real texts lose 0.2 % with 60."""
DECAY = 1 - 1 / MEMORY
"""Factor by which the weight of an observation decays per round."""
PRIOR = 0.8
"""Acceptance before any observation, which counts as one; 1 makes calibrated cells 2 % slower."""
SHIFT = -1.0
"""Log-odds that are added at first: lookup's estimates are two to three times too high."""


class Reliability:
    """Corrects a drafter's estimates of acceptance: their log-odds differ by a common number."""

    def __init__(self) -> None:
        self._shift = SHIFT

    def correct(self, chance: float) -> float:
        """The probability that a node is accepted; chance: the drafter's estimate, at most 1."""
        doubt = max(1 - chance, 1e-6)  # what followed a hundred times rounds to certain
        odds = chance / doubt * exp(self._shift)
        return odds / (1 + odds)

    def observe(self, accepted: int, estimate: float) -> None:
        """Learn from the accepted nodes of a draft and the sum of their corrected estimates."""
        self._shift += (1 - DECAY) * (accepted - estimate)


class Acceptance:
    """Running acceptance probabilities of a chain's tokens, by position in the draft.

    A token after the end of the answer counts as rejected: drafting it gained nothing.
    """

    def __init__(self) -> None:
        self._verdicts = [0.0] * MAX_AUTO_GAMMA
        self._acceptances = [0.0] * MAX_AUTO_GAMMA

    def observe(self, round_: Round) -> None:
        """Count the accepted tokens that a chain would have had, and the first rejected one."""
        first = round_.first_choices or FirstChoices(round_.accepted, round_.depth)
        accepted = min(first.accepted, len(round_.tokens) - 1)
        for place in range(min(accepted + 1, first.judged, MAX_AUTO_GAMMA)):
            self._verdicts[place] = DECAY * self._verdicts[place] + 1
            self._acceptances[place] = DECAY * self._acceptances[place] + (place < accepted)

    @property
    def mean(self) -> float:
        """Acceptance probability over all positions."""
        return (sum(self._acceptances) + PRIOR) / (sum(self._verdicts) + 1)

    def expected_tokens(self) -> list[float]:
        """E(gamma), the expected tokens of a chain, for gamma from 0 to MAX_AUTO_GAMMA.

        What is expected of a position counts as one observation: the chance at the one before, at
        least the mean of all.
        """
        tokens, path, chance = [1.0], 1.0, (mean := self.mean)
        for verdicts, acceptances in zip(self._verdicts, self._acceptances, strict=True):
            chance = (acceptances + max(chance, mean)) / (verdicts + 1)
            path *= chance
            tokens.append(tokens[-1] + path)
        return tokens

    def tree_tokens(self, nodes: int) -> tuple[float, ...]:
        """As `tree_tokens`, of the mean to the next 5 %: each value costs the model some time."""
        return tree_tokens(min(max(5 * round(20 * self.mean), 5), 95), nodes)


SECOND = 0.45
"""Probability that the next token is right; heads and draft of the bundled pair have 0.4 to 0.6."""

Path = tuple[int, ...]
"""A node as the ranks from the root down to it, 0 for the likeliest child."""


@lru_cache(maxsize=1024)
def tree_tokens(percent: int, nodes: int) -> tuple[float, ...]:
    """E(gamma), the expected tokens of a round, for trees of 0 to MAX_AUTO_GAMMA levels.

    percent: 100 a, from 1 to 99.
    """
    trees = (surest_paths(percent / 100, nodes, depth) for depth in range(1, MAX_AUTO_GAMMA + 1))
    return (1.0, *(1 + sum(chance for chance, _ in tree) for tree in trees))


def a_tree_pays(chains: Mapping[int, float], trees: Mapping[int, Mapping[int, float]]) -> bool:
    """True if at an acceptance of 0.6 or more a tree is faster than every chain.

    chains, trees: seconds of a round by gamma, those of trees by number of nodes.
    """
    for percent in (60, 70, 80, 90):
        tokens = [*accumulate((percent / 100) ** place for place in range(MAX_AUTO_GAMMA + 1))]
        chain = max(tokens[gamma] / cost for gamma, cost in chains.items())
        for nodes, costs in trees.items():
            own = tree_tokens(percent, nodes)
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
