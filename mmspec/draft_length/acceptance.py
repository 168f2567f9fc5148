"""Estimates how many drafted tokens a round accepts, from the rounds before it."""

from math import exp

from mmspec.decoding.acceptance import FirstChoices
from mmspec.decoding.statistics import Round
from mmspec.decoding.tree_estimates import tree_tokens

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
        return tree_tokens(min(max(5 * round(20 * self.mean), 5), 95), nodes, MAX_AUTO_GAMMA)
