"""Chooses what to draft in a round: a fixed or an adaptive number of tokens, a chain or a tree.

A round that drafts gamma tokens gives E(gamma) = 1 + a_1 + a_1 a_2 + ... + a_1...a_gamma tokens on
average and takes c(gamma) seconds. Here a_i is the probability that the i-th drafted token is
accepted if all before it are. For a tree gamma counts the levels. Only the sum of drafting and
verifying time is used: on an asynchronous device the time of drafting shows up in verifying.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import NamedTuple

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA, Acceptance
from mmspec.draft_length.draft_kind import Costs, DraftKind, uncalibrated
from mmspec.draft_length.round_costs import FAR
from mmspec.draft_length.round_times import RoundTimes

ALLOWANCE = 1.3
"""The time that drafting may lose in total at the start of a session, in plain rounds."""
SHARE = 0.008
"""The time that drafting may lose for each decoded token, in plain rounds."""
CREDIT = 8.0
"""The most time that drafting may lose out of what it gained before, in plain rounds."""
EXPLORE = 16
"""Number of rounds between trials of a neighbouring draft length while drafting pays."""
DECISIONS = 4
"""Number of rounds from one decision to the next while drafting pays; divides EXPLORE."""
PLAIN_SHARE = 0.005
"""The time that plain rounds may take to measure their cost again while drafting pays."""
PLAIN_ROUNDS = 2
"""Number of plain rounds that a session without a calibration begins with."""
TREE_GAIN = 1.05
"""Factor by which a tree must be expected to be faster than a chain: its gain is less sure."""
SHORT = 256
"""Number of positions in a context below which rounds cost the same."""
STRIDE = 32
"""Number of positions over which the cost of a round counts as constant."""


@dataclass(frozen=True, slots=True)
class FixedDraftLength:
    """Drafts the same number of tokens in every round."""

    gamma: int

    def choose(self, max_gamma: int, context: int) -> Plan:  # noqa: ARG002
        """The fixed length, or fewer tokens at the end of the answer."""
        return Plan(min(self.gamma, max_gamma))

    def observe(self, round_: Round) -> None:
        """Do nothing: the length is fixed."""

    def plain_reason(self) -> None:
        """No line for the user: the length is fixed."""


class Choice(NamedTuple):
    """A draft to consider: its kind and length; length 0 is a plain round."""

    kind: DraftKind
    gamma: int

    @property
    def rate(self) -> float:
        """Expected tokens per time of one plain round."""
        return self.kind.rate(self.gamma)

    @property
    def risk(self) -> float:
        """Plain rounds that are lost if the whole draft is rejected."""
        return self.kind.costs.steps[self.gamma] - 1


class AdaptiveDraftLength:
    """Drafts what gives the most expected tokens per second, with bounded losses.

    Without calibrated costs PLAIN_ROUNDS plain rounds measure c(0) first.  A round drafts the chain
    or tree with the largest E(gamma) / c(gamma), at most twice as long as the longest with a known
    cost.
    Losses are bounded by a budget in plain rounds: ALLOWANCE, plus SHARE per token, plus gains and
    minus losses of drafting so far. A draft is made only if the budget covers its whole rejection.
    So if drafting loses at every length, it is tried only as often as the budget grows.
    """

    def __init__(
        self, calibrated: Costs = uncalibrated, trees: Mapping[int, Costs] | None = None
    ) -> None:
        """calibrated: costs that were measured before, if any.

        trees: those of trees by number of nodes; the drafter must be open with one as large. None
        drafts only what the drafter was opened for.
        """
        self._acceptance, self._times = Acceptance(), RoundTimes()
        make = partial(DraftKind, self._times)
        first, trees = make(None if trees is None else 0, calibrated), trees or {}
        self._kinds = [first, *(make(nodes, costs) for nodes, costs in trees.items())]
        self._rounds = 0
        self._update()
        self._plainly = self._chosen = self._leader = Choice(first, 0)
        self._place, self._is_calibrated = -1, False
        self._plain_rounds, self._speed_context = 0, 0
        self._budget = ALLOWANCE
        self._last_tried: dict[Choice, int] = {}

    def choose(self, max_gamma: int, context: int) -> Plan:
        """What to draft after `context` positions, 0 <= gamma <= max_gamma."""
        self._move(context)
        if self._measures_plain():
            self._chosen = self._plainly
        elif not self._stays(max_gamma):
            self._chosen = self._best(max_gamma)
        return self._chosen.kind.plan(self._chosen.gamma)

    def observe(self, round_: Round) -> None:
        """Observe a round's cost and acceptance; it may have drafted fewer tokens than chosen."""
        gamma, seconds = round_.depth, round_.draft_seconds + round_.verify_seconds
        chosen = Choice(self._chosen.kind, gamma) if gamma else self._plainly
        self._rounds += 1
        self._last_tried[chosen] = self._rounds
        cost = chosen.kind.costs.observe(gamma, seconds)
        if gamma:
            chosen.kind.observe(round_, self._acceptance)
            self._budget += len(round_.tokens) - cost if cost else 0.0
        else:
            self._plain_rounds += 1
        self._budget = min(self._budget + SHARE * len(round_.tokens), CREDIT)

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while drafting pays or its cost is unknown."""
        self._update()
        known = [Choice(kind, gamma) for kind in self._kinds for gamma in kind.costs.lengths]
        if self._measures_plain() or not known or self._fastest(MAX_AUTO_GAMMA, inf).gamma:
            return None
        kind, gamma = max(known, key=_rate)
        return (
            f"gamma auto: decoding plainly, for a round that drafts {gamma} would give "
            f"{kind.expected[gamma]:.2f} tokens and cost {kind.costs.steps[gamma]:.2f} plain "
            "rounds"
        )

    def _stays(self, max_gamma: int) -> bool:
        """True for a round that drafts as the one before, without a decision that takes time."""
        is_between = self._rounds > EXPLORE and self._rounds % DECISIONS != DECISIONS - 1
        is_best = self._chosen == self._leader and self._chosen.gamma > 0
        return is_between and is_best and self._allows(self._chosen, max_gamma)

    def _best(self, max_gamma: int) -> Choice:
        """The fastest draft, or one to try in its place."""
        self._update()
        if self._budget < min(self._kinds[0].costs.steps[1:]) - 1:  # no draft can be tried
            return self._plainly
        best = self._leader = self._fastest(max_gamma, self._limit)
        trials = [
            trial for trial in self._trials(best, max_gamma) if self._allows(trial, max_gamma)
        ]
        return min(trials, key=lambda trial: self._last_tried.get(trial, 0), default=best)

    @property
    def _limit(self) -> float:
        """The most that a draft may lose if rejected, in plain rounds."""
        return self._budget if self._budget < CREDIT else inf

    def _fastest(self, max_gamma: int, budget: float) -> Choice:
        """The fastest of the drafts that lose `budget` at most; a tree must win by a margin."""
        best, rate = self._plainly, 1.0
        for kind in self._kinds:
            gamma = kind.fastest(max_gamma, budget)
            if gamma and kind.rate(gamma) > rate:
                best, rate = Choice(kind, gamma), TREE_GAIN * kind.rate(gamma)
        return best

    def _update(self) -> None:
        """Estimate anew what drafts gain and cost."""
        for kind in self._kinds:
            kind.update(self._acceptance)

    def _move(self, context: int) -> None:
        """Go to the costs at `context`."""
        if context // STRIDE == self._place:
            return
        self._place = context // STRIDE
        for kind in self._kinds:
            kind.costs.move(kind.calibrated(context))
        self._is_calibrated = bool(self._kinds[0].calibrated(context))
        here, there = context + SHORT, self._speed_context + SHORT
        if not self._is_calibrated and not 1 / FAR <= here / there <= FAR:
            self._times.forget_speed()
        self._speed_context = context

    def _measures_plain(self) -> bool:
        """True if the next round must be plain, to measure its time."""
        if self._plain_rounds < PLAIN_ROUNDS and not self._is_calibrated:
            return True
        return self._times.in_doubt

    def _trials(self, best: Choice, max_gamma: int) -> Iterable[Choice]:
        """Choices to try: a round takes the least recently tried of them, or `best` if empty."""
        chain, (kind, gamma) = self._kinds[0], best
        lengths = chain.lengths(max_gamma)
        if not gamma:
            chains = [Choice(chain, length) for length in lengths]
            return [max(chains, key=_rate), chains[-1]] if chains else []
        if (
            self._rounds - self._last_tried.get(self._plainly, 0)
            > (1 - 1 / best.rate) / PLAIN_SHARE
        ):
            return [self._plainly]
        if self._rounds % EXPLORE < EXPLORE - 1:
            return []
        best_chain = [] if kind is chain else [max((Choice(chain, n) for n in lengths), key=_rate)]
        return [Choice(kind, gamma - 1), Choice(kind, gamma + 1), *best_chain]

    def _allows(self, draft: Choice, max_gamma: int) -> bool:
        """True if the length is possible and the budget covers its entire rejection."""
        kind, gamma = draft
        if not gamma:
            return True
        return gamma in kind.lengths(max_gamma) and draft.risk <= self._limit


def _rate(choice: Choice) -> float:
    return choice.rate


DraftLength = FixedDraftLength | AdaptiveDraftLength
