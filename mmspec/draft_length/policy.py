"""Chooses how many tokens to draft in a round: a fixed or an adaptive number.

A round that drafts gamma tokens gives E(gamma) = 1 + a_1 + a_1 a_2 + ... + a_1...a_gamma tokens on
average and takes c(gamma) seconds. Here a_i is the probability that the i-th drafted token is
accepted if all before it are. For a tree gamma counts the levels. Only the sum of drafting and
verifying time is used: on an asynchronous device the time of drafting shows up in verifying.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA, Acceptance
from mmspec.draft_length.round_costs import PlainCost, RoundCosts

ALLOWANCE = 1.3
"""The time that drafting may lose in total at the start of a session, in plain rounds."""
SHARE = 0.008
"""The time that drafting may lose for each decoded token, in plain rounds."""
CREDIT = 8.0
"""The most time that drafting may lose out of what it gained before, in plain rounds."""
EXPLORE = 16
"""Number of rounds between trials of a neighbouring draft length while drafting pays."""
STRIDE = 32
"""Number of positions over which the cost of a round counts as constant."""

Costs = Callable[[int], Mapping[int, float]]
"""Function from a context length to the calibrated seconds of a round by draft length from 0."""


@dataclass(frozen=True, slots=True)
class FixedDraftLength:
    """Drafts the same number of tokens in every round."""

    gamma: int

    def choose(self, max_gamma: int, context: int) -> int:  # noqa: ARG002
        """The fixed length, or fewer tokens at the end of the answer."""
        return min(self.gamma, max_gamma)

    def observe(self, round_: Round) -> None:
        """Do nothing: the length is fixed."""

    def plain_reason(self) -> None:
        """No line for the user: the length is fixed."""


def uncalibrated(_: int) -> Mapping[int, float]:
    """No costs, at any context."""
    return {}


class AdaptiveDraftLength:
    """Drafts the length with the most expected tokens per second, with bounded losses.

    Without calibrated costs two plain rounds measure c(0) first.  A round drafts the gamma with the
    largest E(gamma) / c(gamma), at most twice the longest with a known cost.  Losses are bounded by
    a budget in plain rounds: ALLOWANCE, plus SHARE per token, plus gains and minus losses of
    drafting so far. A length is drafted only if the budget covers the rejection of the whole draft.
    So if drafting loses at every length, it is tried only as often as the budget grows.
    """

    def __init__(self, calibrated: Costs = uncalibrated) -> None:
        """calibrated: costs that were measured before, if any."""
        self._calibrated = calibrated
        self._place, self._is_calibrated = -1, False
        self._plain = PlainCost()
        self._costs = RoundCosts()
        self._acceptance = Acceptance()
        self._expected = self._acceptance.expected_tokens()
        self._budget = ALLOWANCE
        self._rounds = 0
        self._last_tried: dict[int, int] = {}

    def choose(self, max_gamma: int, context: int) -> int:
        """The number of tokens to draft after `context` positions, 0 <= gamma <= max_gamma."""
        self._move(context)
        if self._measures_plain():
            return 0
        affordable = [gamma for gamma in self._lengths(max_gamma) if self._affords(gamma)]
        best = max(affordable, key=self._rate)
        trials = [gamma for gamma in self._trials(best) if gamma in affordable]
        return min(trials, key=lambda gamma: self._last_tried.get(gamma, 0), default=best)

    def observe(self, round_: Round) -> None:
        """Observe a round's cost and acceptance; it may have drafted fewer tokens than chosen."""
        gamma, seconds = round_.depth, round_.draft_seconds + round_.verify_seconds
        self._acceptance.observe(round_)
        self._expected = self._acceptance.expected_tokens()
        self._rounds += 1
        self._last_tried[gamma] = self._rounds
        if gamma:
            self._charge(round_, self._costs.observe(gamma, seconds / self._plain.seconds))
        else:
            self._plain.observe(seconds)
        self._budget = min(self._budget + SHARE * len(round_.tokens), CREDIT)

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while drafting pays or its cost is unknown."""
        lengths = self._costs.lengths
        if self._measures_plain() or not lengths or max(self._lengths(), key=self._rate):
            return None
        gamma = max(lengths, key=self._rate)
        return (
            f"gamma auto: decoding plainly, for a round that drafts {gamma} would give "
            f"{self._expected[gamma]:.2f} tokens and cost {self._costs.steps[gamma]:.2f} plain "
            "rounds"
        )

    def _move(self, context: int) -> None:
        """Go to the costs at `context`."""
        if context // STRIDE != self._place:
            self._place = context // STRIDE
            calibrated = self._calibrated(context)
            self._is_calibrated = bool(calibrated)
            self._plain.move(context, calibrated.get(0))
            self._costs.move(calibrated)

    def _measures_plain(self) -> bool:
        """True if the next round must be plain, to measure its cost."""
        if self._is_calibrated:
            return not self._plain.rounds and self._costs.in_doubt
        return self._plain.rounds < 2

    def _charge(self, round_: Round, cost: float | None) -> None:
        """Count what a drafted round gained or lost."""
        if not self._plain.rounds:  # then its cost in plain rounds is only known beforehand
            cost = self._costs.steps[round_.depth]
        if cost is not None:
            self._budget += len(round_.tokens) - cost

    def _trials(self, best: int) -> list[int]:
        """Lengths to try: a round drafts the least recently tried of them, or `best` if empty."""
        if best:
            return [0, best - 1, best + 1] if self._rounds % EXPLORE == EXPLORE - 1 else []
        lengths = self._lengths()
        return [max(lengths[1:], key=self._rate), lengths[-1]]

    def _lengths(self, max_gamma: int = MAX_AUTO_GAMMA) -> range:
        """Draft lengths to consider, from 0 to twice the longest one with known cost."""
        longest = max(2 * max(self._costs.lengths, default=0), 1)
        return range(min(longest, MAX_AUTO_GAMMA, max_gamma) + 1)

    def _rate(self, gamma: int) -> float:
        """Expected tokens per time of one plain round, at draft length `gamma`."""
        return self._expected[gamma] / self._costs.steps[gamma]

    def _affords(self, gamma: int) -> bool:
        """True if the budget covers a round whose draft is rejected entirely."""
        return not gamma or self._budget >= min(self._costs.steps[gamma] - 1, CREDIT)


DraftLength = FixedDraftLength | AdaptiveDraftLength
