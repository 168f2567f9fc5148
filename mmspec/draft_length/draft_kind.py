"""What is known of the drafts of one kind: chains, or trees of one number of nodes."""

from collections.abc import Callable, Mapping, Sequence

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA, Acceptance
from mmspec.draft_length.rank_model import tree_tokens
from mmspec.draft_length.round_costs import RoundCosts
from mmspec.draft_length.round_times import RoundTimes

Costs = Callable[[int], Mapping[int, float]]
"""Function from a context length to the calibrated seconds of a round by draft length from 0."""

SHALLOWEST = 2
"""Levels of the shallowest tree whose size adapts: a shallower one has fewer nodes."""


def uncalibrated(_: int) -> Mapping[int, float]:
    """No costs, at any context."""
    return {}


class DraftKind:
    """Costs and acceptance of chains, or of trees with one number of nodes, by length.

    The length gamma counts the tokens of a chain, the levels of a tree.
    """

    def __init__(
        self, times: RoundTimes, nodes: int | None = None, calibrated: Costs = uncalibrated
    ) -> None:
        """nodes: 0 for chains; None for what the drafter was opened to draft."""
        self._nodes = nodes
        self.calibrated = calibrated
        self.costs = RoundCosts(times)
        self.expected: Sequence[float] = [1.0] * (MAX_AUTO_GAMMA + 1)
        """E(gamma), the expected tokens of a round."""
        self._model: Sequence[float] = self.expected

    def plan(self, gamma: int) -> Plan:
        """The plan of a round that drafts `gamma` tokens or levels."""
        return Plan(gamma, gamma if self._nodes == 0 else self._nodes)

    def update(self, acceptance: Acceptance) -> None:
        """Estimate costs, and E(gamma) from the acceptance of chains and what trees gained."""
        self.costs.update()
        if not self._nodes:
            self.expected = acceptance.expected_tokens()
            return
        self._model = tree_tokens(acceptance.mean, self._nodes)
        share = acceptance.tree_share
        self.expected = [1 + share * (tokens - 1) for tokens in self._model]

    def observe(self, round_: Round, acceptance: Acceptance) -> None:
        """Count the acceptance of a round of this kind."""
        acceptance.observe(round_)
        if self._nodes:
            acceptance.observe_tree(round_.accepted, self._model[round_.depth] - 1)

    def lengths(self, max_gamma: int) -> range:
        """Draft lengths to consider, from 1 to twice the longest one with known cost."""
        longest = 2 * self.costs.lengths[-1] if self.costs.lengths else 1
        first = SHALLOWEST if self._nodes else 1
        return range(first, min(longest, MAX_AUTO_GAMMA, max_gamma) + 1)

    def fastest(self, max_gamma: int, budget: float) -> int:
        """The length with the most tokens per second that loses at most `budget` if rejected.

        budget: in plain rounds. Returns 0 if none may be drafted.
        """
        best, best_rate = 0, 0.0
        for gamma in self.lengths(max_gamma):
            steps = self.costs.steps[gamma]
            if self.expected[gamma] > best_rate * steps and steps - 1 <= budget:
                best, best_rate = gamma, self.expected[gamma] / steps
        return best

    def rate(self, gamma: int) -> float:
        """Expected tokens per time of one plain round, at draft length `gamma`."""
        return self.expected[gamma] / self.costs.steps[gamma]
