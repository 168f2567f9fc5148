"""Estimates how many drafted tokens a round accepts, from the rounds before it."""

from math import sqrt

from mmspec.decoding.acceptance import FirstChoices
from mmspec.decoding.statistics import Round

MAX_AUTO_GAMMA = 8
"""Number of tokens in the longest draft that an adaptive length tries."""
DECAY = 0.98
"""Factor by which the weight of an observation decays per round; about fifty rounds count."""
PRIOR, PRIOR_TOKENS = 0.8, 2.0
"""Acceptance probability before any observation, and the number of tokens that it weighs."""
SMOOTHING = 2.0
"""Number of tokens that the position before or the mean weighs in the estimate of one position."""
MODEL_TOKENS = 8.0
"""Number of accepted tokens that the model of trees weighs against what trees gained."""


class Acceptance:
    """Running acceptance probabilities of a chain's tokens, by position in the draft.

    A token after the end of the answer counts as rejected: drafting it gained nothing.
    """

    def __init__(self) -> None:
        self._judged = [0.0] * MAX_AUTO_GAMMA
        self._accepted = [0.0] * MAX_AUTO_GAMMA
        self._tree_accepted = self._tree_predicted = MODEL_TOKENS

    def observe(self, round_: Round) -> None:
        """Count the accepted tokens that a chain would have had, and the first rejected one."""
        first = round_.first_choices or FirstChoices(round_.accepted, round_.depth)
        gained = min(first.accepted, len(round_.tokens) - 1)
        for place in range(min(gained + 1, first.judged, MAX_AUTO_GAMMA)):
            self._judged[place] = DECAY * self._judged[place] + 1
            self._accepted[place] = DECAY * self._accepted[place] + (place < gained)

    def observe_tree(self, accepted: int, predicted: float) -> None:
        """Count the accepted tokens of a tree and those that the model of its ranks predicted."""
        prior = (1 - DECAY) * MODEL_TOKENS
        self._tree_accepted = DECAY * self._tree_accepted + prior + accepted
        self._tree_predicted = DECAY * self._tree_predicted + prior + predicted

    @property
    def tree_share(self) -> float:
        """The accepted tokens of trees, divided by what the model of their ranks predicted."""
        return self._tree_accepted / self._tree_predicted

    @property
    def mean(self) -> float:
        """Acceptance probability over all positions."""
        return (sum(self._accepted) + PRIOR_TOKENS * PRIOR) / (sum(self._judged) + PRIOR_TOKENS)

    def expected_tokens(self) -> list[float]:
        """E(gamma), the expected tokens of a chain, for gamma from 0 to MAX_AUTO_GAMMA.

        Positions with few observations are smoothed by the one before or the mean of all.
        """
        mean = self.mean
        tokens, reached, chance = [1.0], 1.0, mean
        for judged, accepted in zip(self._judged, self._accepted, strict=True):
            chance = (accepted + SMOOTHING * max(chance, mean)) / (judged + SMOOTHING)
            reached *= chance
            tokens.append(tokens[-1] + reached)
        return tokens

    def spread(self, gamma: int, other: int) -> float:
        """How uncertain E(gamma) is beside E(other) of a shorter chain, as a share; else 0.

        The chances of the tokens beyond `other` are as uncertain as that of the first of them.
        """
        if not 0 < other < gamma:
            return 0.0
        tokens, judged = self.expected_tokens(), self._judged[other] + SMOOTHING
        chance = (self._accepted[other] + SMOOTHING * PRIOR) / judged
        more = 1 - tokens[other] / tokens[gamma]
        return more * sqrt((1 - chance) / chance / judged)
