"""Estimates how many drafted tokens a round accepts, from the rounds before it."""

from math import exp

from mmspec.decoding.acceptance import FirstChoices
from mmspec.decoding.statistics import Round

MAX_AUTO_GAMMA = 8
"""Number of tokens in the longest draft that an adaptive length tries."""
DECAY = 0.98
"""Factor by which the weight of an observation decays per round; about fifty rounds count."""
PRIOR = 0.8
"""Acceptance probability before any observation, which counts as one."""
RATE = 0.05
"""Log-odds by which a node that was wrongly accepted or rejected corrects later estimates."""
SHIFT = -1.0
"""Log-odds that are added at first: lookup's estimates are two to three times too high."""


class Reliability:
    """Corrects a drafter's estimates of acceptance: their log-odds differ by a common number."""

    def __init__(self) -> None:
        self._shift = SHIFT

    def corrected(self, chance: float) -> float:
        """The probability that a node is accepted; chance: the drafter's estimate, at most 1."""
        doubt = max(1 - chance, 1e-6)  # what followed a hundred times rounds to certain
        odds = chance / doubt * exp(self._shift)
        return odds / (1 + odds)

    def observe(self, accepted: int, expected: float) -> None:
        """Learn from the accepted nodes of a draft and the sum of their corrected estimates."""
        self._shift += RATE * (accepted - expected)


class Acceptance:
    """Running acceptance probabilities of a chain's tokens, by position in the draft.

    A token after the end of the answer counts as rejected: drafting it gained nothing.
    """

    def __init__(self) -> None:
        self._judged = [0.0] * MAX_AUTO_GAMMA
        self._accepted = [0.0] * MAX_AUTO_GAMMA

    def observe(self, round_: Round) -> None:
        """Count the accepted tokens that a chain would have had, and the first rejected one."""
        first = round_.first_choices or FirstChoices(round_.accepted, round_.depth)
        gained = min(first.accepted, len(round_.tokens) - 1)
        for place in range(min(gained + 1, first.judged, MAX_AUTO_GAMMA)):
            self._judged[place] = DECAY * self._judged[place] + 1
            self._accepted[place] = DECAY * self._accepted[place] + (place < gained)

    @property
    def mean(self) -> float:
        """Acceptance probability over all positions."""
        return (sum(self._accepted) + PRIOR) / (sum(self._judged) + 1)

    def expected_tokens(self) -> list[float]:
        """E(gamma), the expected tokens of a chain, for gamma from 0 to MAX_AUTO_GAMMA.

        What is expected of a position counts as one observation: the chance at the one before, at
        least the mean of all.
        """
        tokens, reached, chance = [1.0], 1.0, (mean := self.mean)
        for judged, accepted in zip(self._judged, self._accepted, strict=True):
            chance = (accepted + max(chance, mean)) / (judged + 1)
            reached *= chance
            tokens.append(tokens[-1] + reached)
        return tokens
