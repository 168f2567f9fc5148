"""Chooses what to draft in a round: a fixed or an adaptive number of tokens, a chain or a tree.

A round that drafts gamma tokens gives E(gamma) = 1 + a_1 + a_1 a_2 + ... + a_1...a_gamma tokens on
average and takes c(gamma) seconds. Here a_i is the probability that the i-th drafted token is
accepted if all before it are. For a tree gamma counts the levels. Only the sum of drafting and
verifying time is used: on an asynchronous device the time of drafting shows up in verifying.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import hypot, inf
from operator import itemgetter
from statistics import median
from typing import NamedTuple

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA, Acceptance
from mmspec.draft_length.draft_kind import Costs, DraftKind, uncalibrated
from mmspec.draft_length.round_costs import FAR
from mmspec.draft_length.round_times import RoundTimes

ALLOWANCE = 1.2
"""The time that drafting may lose at the start of a session, in plain rounds."""
SHARE = 0.01
"""The time that drafting may lose for each decoded token, in plain rounds."""
RENEWAL = 0.03
"""The part of ALLOWANCE that the next answer gets back for each decoded token, in plain rounds."""
CREDIT = 8.0
"""The most time that drafting may lose out of what it gained before, in plain rounds."""
BET = 0.5
"""The share of that time which the fastest draft may lose, unless no draft loses less."""
EXPLORE, RARER = 24, 16
"""Rounds between trials of another draft while drafting pays, at least a RARER-th of all rounds."""
NEAR = 96
"""Number of rounds after which the next shorter or longer draft is tried in any case; what was
never tried counts as this old."""
DECISIONS = 8
"""Number of rounds from one decision to the next where nothing is urgent."""
TRIAL = 2
"""Number of rounds of a draft's trial: the first one is slow."""
PLAIN_SHARE = 0.003
"""The time that plain rounds may take to measure their cost again while drafting pays."""
PLAIN_ROUNDS = 2
"""Number of plain rounds that a session without a calibration begins with."""
TREE_GAIN = 1.12
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
    minus losses of drafting so far; a new answer, which may be easier to draft, renews ALLOWANCE by
    the length of the last. A draft is made only if the budget covers its whole rejection; one that
    seems the fastest if BET of the budget does: after bad luck something is left. So if drafting
    loses at every length, it is tried only as often as the budget grows.
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
        self._update()
        self._plainly = self._chosen = self._latest = Choice(first, 0)
        self._place, self._is_calibrated = -1, False
        self._end = self._speed_context = self._answered = 0
        self._rounds = self._plain_rounds = self._next_decision = self._last_trial = 0
        self._budget = ALLOWANCE
        self._last_tried: dict[Choice, int] = {}
        self._unread: list[tuple[Choice, Round]] = []

    def choose(self, max_gamma: int, context: int) -> Plan:
        """What to draft after `context` positions, 0 <= gamma <= max_gamma."""
        if context != self._end:
            self._begin_answer()
        if self._rounds >= self._next_decision or self._chosen.gamma > max_gamma:
            self._decide(max_gamma, context)
        self._end = context
        return self._chosen.kind.plan(self._chosen.gamma)

    def observe(self, round_: Round) -> None:
        """Observe a round's cost and acceptance; it may have drafted fewer tokens than chosen."""
        self._rounds += 1
        self._end += len(round_.tokens)
        self._answered += len(round_.tokens)
        gamma = round_.depth
        self._unread.append((Choice(self._chosen.kind, gamma) if gamma else self._plainly, round_))

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while drafting pays or its cost is unknown."""
        self._read()
        self._update()
        known = [Choice(kind, gamma) for kind in self._kinds for gamma in kind.costs.lengths]
        if self._measures_plain() or not known:
            return None
        if self._fastest(MAX_AUTO_GAMMA, inf).gamma:
            lost = "gamma auto: decoding plainly for a while, for drafts lost what they may lose"
            return lost if self._budget < self._least_risk else None
        kind, gamma = max(known, key=_rate)
        return (
            f"gamma auto: decoding plainly, for a round that drafts {gamma} would give "
            f"{kind.expected[gamma]:.2f} tokens and cost {kind.costs.steps[gamma]:.2f} plain "
            "rounds"
        )

    def _decide(self, max_gamma: int, context: int) -> None:
        """Choose anew, for several rounds where nothing is urgent: deciding takes time."""
        self._read()
        self._move(context)
        self._next_decision = self._rounds + 1
        if self._measures_plain():
            self._chosen = self._plainly
            return
        self._update()
        affords = self._budget >= self._least_risk
        if self._times.waits:
            max_gamma = min(max_gamma, self._latest.gamma)
        best = self._fastest(max_gamma, self._limit(BET)) if affords else self._plainly
        self._chosen = self._trial(best, max_gamma) if affords else best
        is_safe = self._budget >= CREDIT / 2 if best.gamma else not affords
        if is_safe and self._rounds > EXPLORE:
            trial = TRIAL if self._chosen.gamma else 1
            self._next_decision += (DECISIONS if self._chosen == best else trial) - 1

    def _begin_answer(self) -> None:
        """Decide anew, with a part of what drafting may lose, by the length of the last answer."""
        self._read()
        self._next_decision = self._rounds
        renewed = min(ALLOWANCE, self._budget + RENEWAL * self._answered)
        self._budget, self._answered = max(self._budget, renewed), 0

    def _read(self) -> None:
        """Take what the rounds since the last decision cost and gave."""
        number = self._rounds - len(self._unread)
        for chosen, unread in groupby(self._unread, itemgetter(0)):
            rounds = [round_ for _, round_ in unread]
            number += len(rounds)
            self._last_tried[chosen] = number
            self._take(chosen, rounds)
            self._latest = chosen
        self._unread.clear()

    def _take(self, chosen: Choice, rounds: Sequence[Round]) -> None:
        """Take rounds of one draft in a row: the median says what one costs, if some are slow."""
        seconds = [round_.draft_seconds + round_.verify_seconds for round_ in rounds]
        later = seconds if chosen == self._latest else seconds[1:]
        costs, usual = chosen.kind.costs, median(later or seconds)
        cost = costs.observe(chosen.gamma, usual, repeats=bool(later))
        tokens = sum(len(round_.tokens) for round_ in rounds)
        if chosen.gamma:
            for round_ in rounds:
                chosen.kind.observe(round_, self._acceptance)
            self._budget += tokens - cost * len(rounds) if cost else 0.0
        else:
            self._plain_rounds += len(rounds)
        self._budget = min(self._budget + SHARE * tokens, CREDIT)

    @property
    def _least_risk(self) -> float:
        """The least that a draft may lose if rejected, in plain rounds."""
        return min(self._kinds[0].costs.steps[1:]) - 1

    def _limit(self, share: float) -> float:
        """The most that a draft may lose if rejected, in plain rounds: a share of the budget."""
        return inf if self._budget >= CREDIT else max(share * self._budget, self._least_risk)

    def _fastest(self, max_gamma: int, budget: float) -> Choice:
        """The fastest of the drafts that lose `budget` at most; a tree must win by a margin."""
        drafts = [Choice(kind, kind.fastest(max_gamma, budget)) for kind in self._kinds]
        made = [draft for draft in drafts if draft.gamma]
        return max([self._plainly, *made], key=self._sure_rate)

    def _sure_rate(self, draft: Choice) -> float:
        """The rate of a chain or of plain decoding; that of a tree, TREE_GAIN times less."""
        return draft.rate / (1.0 if draft.kind is self._kinds[0] else TREE_GAIN)

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

    def _trial(self, best: Choice, max_gamma: int) -> Choice:
        """What to try in place of `best`, or `best` itself."""
        if not best.gamma:
            chains = [Choice(self._kinds[0], gamma) for gamma in self._kinds[0].lengths(max_gamma)]
            trials = [max(chains, key=_rate), chains[-1]] if chains else []
            return max(filter(self._allows, trials), key=self._age, default=best)
        if self._age(self._plainly) > (1 - 1 / best.rate) / PLAIN_SHARE:
            return self._plainly
        if self._rounds - self._last_trial <= max(EXPLORE, self._rounds // RARER):
            return best
        self._last_trial = self._rounds
        return self._rival(best, max_gamma)

    def _rival(self, best: Choice, max_gamma: int) -> Choice:
        """Of drafts that may be faster than `best`, or are beside it, the one not tried longest."""
        kinds = [best.kind] if best.kind is self._kinds[0] else [best.kind, self._kinds[0]]
        drafts = [Choice(kind, gamma) for kind in kinds for gamma in kind.lengths(max_gamma)]
        near = {best._replace(gamma=best.gamma + step) for step in (-1, 1)}
        rivals = [
            draft
            for draft in drafts
            if self._promise(draft, best) > best.rate or (draft in near and self._age(draft) > NEAR)
        ]
        rivals = [draft for draft in rivals if draft != best and self._allows(draft)]
        return max(rivals, key=self._age, default=best)

    def _promise(self, draft: Choice, best: Choice) -> float:
        """The rate that is still likely, by how uncertain its cost and its tokens are."""
        is_alike = draft.kind is best.kind
        tokens = self._acceptance.spread(draft.gamma, best.gamma) if is_alike else 0.0
        return draft.rate * (1 + hypot(draft.kind.costs.spread(draft.gamma), tokens))

    def _age(self, choice: Choice) -> int:
        """Number of rounds since the choice was tried."""
        return self._rounds - self._last_tried.get(choice, -NEAR)

    def _allows(self, draft: Choice) -> bool:
        """True if the budget covers the draft's entire rejection."""
        return draft.risk <= self._limit(1)


def _rate(choice: Choice) -> float:
    return choice.rate


DraftLength = FixedDraftLength | AdaptiveDraftLength
