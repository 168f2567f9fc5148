"""Chooses what to draft in a round: a fixed or an adaptive number of tokens, a chain or a tree.

A round that drafts gamma tokens gives E(gamma) = 1 + a_1 + a_1 a_2 + ... + a_1...a_gamma tokens on
average and takes c(gamma) seconds. Here a_i is the probability that the i-th drafted token is
accepted if all before it are. For a tree gamma counts the levels. Only the sum of drafting and
verifying time is used: on an asynchronous device the time of drafting shows up in verifying.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA, Acceptance
from mmspec.draft_length.draft_kind import Costs, DraftKind, uncalibrated
from mmspec.draft_length.round_costs import PlainCost

ALLOWANCE = 1.3
"""The time that drafting may lose in total at the start of a session, in plain rounds."""
SHARE = 0.008
"""The time that drafting may lose for each decoded token, in plain rounds."""
CREDIT = 8.0
"""The most time that drafting may lose out of what it gained before, in plain rounds."""
EXPLORE = 16
"""Number of rounds between trials of a neighbouring draft length while drafting pays."""
PLAIN_SHARE = 0.005
"""The time that plain rounds may take to measure their cost again while drafting pays."""
PLAIN_ROUNDS = 2
"""Number of plain rounds that measure their cost: at first, or if a calibration is in doubt."""
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
        self._acceptance = Acceptance()
        first = DraftKind(None if trees is None else 0, calibrated)
        trees = trees or {}
        self._kinds = [first, *(DraftKind(nodes, costs) for nodes, costs in trees.items())]
        for kind in self._kinds:
            kind.update(self._acceptance)
        self._plainly = self._chosen = Choice(first, 0)
        self._place, self._is_calibrated = -1, False
        self._plain = PlainCost()
        self._budget = ALLOWANCE
        self._rounds = 0
        self._ranking: list[Choice] = []
        self._last_tried: dict[Choice, int] = {}

    def choose(self, max_gamma: int, context: int) -> Plan:
        """What to draft after `context` positions, 0 <= gamma <= max_gamma."""
        self._move(context)
        self._chosen = self._plainly if self._measures_plain() else self._best(max_gamma)
        return self._chosen.kind.plan(self._chosen.gamma)

    def observe(self, round_: Round) -> None:
        """Observe a round's cost and acceptance; it may have drafted fewer tokens than chosen."""
        gamma, seconds = round_.depth, round_.draft_seconds + round_.verify_seconds
        chosen = Choice(self._chosen.kind, gamma) if gamma else self._plainly
        self._rounds += 1
        self._last_tried[chosen] = self._rounds
        if gamma:
            self._ranking = []
            self._learn(chosen.kind, round_)
            cost = chosen.kind.costs.observe(gamma, seconds / self._plain.seconds)
            self._charge(round_, chosen, cost)
        else:
            self._plain.observe(seconds)
        self._budget = min(self._budget + SHARE * len(round_.tokens), CREDIT)

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while drafting pays or its cost is unknown."""
        known = [Choice(kind, gamma) for kind in self._kinds for gamma in kind.costs.lengths]
        if self._measures_plain() or not known or self._ranked()[0].gamma:
            return None
        kind, gamma = max(known, key=_rate)
        return (
            f"gamma auto: decoding plainly, for a round that drafts {gamma} would give "
            f"{kind.expected[gamma]:.2f} tokens and cost {kind.costs.steps[gamma]:.2f} plain "
            "rounds"
        )

    def _best(self, max_gamma: int) -> Choice:
        if self._budget < min(self._kinds[0].costs.steps[1:]) - 1:  # no draft can be tried
            return self._plainly
        best = next(draft for draft in self._ranked() if self._allows(draft, max_gamma))
        trials = [
            trial for trial in self._trials(best, max_gamma) if self._allows(trial, max_gamma)
        ]
        return min(trials, key=lambda trial: self._last_tried.get(trial, 0), default=best)

    def _learn(self, kind: DraftKind, round_: Round) -> None:
        """Count the acceptance of a draft."""
        kind.observe(round_, self._acceptance)
        for each in self._kinds:
            each.update(self._acceptance)

    def _move(self, context: int) -> None:
        """Go to the costs at `context`."""
        if context // STRIDE == self._place:
            return
        self._place, self._ranking = context // STRIDE, []
        for kind in self._kinds:
            kind.costs.move(kind.calibrated(context))
        plain = self._kinds[0].calibrated(context).get(0)
        self._is_calibrated = plain is not None
        self._plain.move(context, plain)

    def _measures_plain(self) -> bool:
        """True if the next round must be plain, to measure its cost."""
        if self._plain.rounds >= PLAIN_ROUNDS:
            return False
        return not self._is_calibrated or any(kind.costs.in_doubt for kind in self._kinds)

    def _charge(self, round_: Round, chosen: Choice, cost: float | None) -> None:
        """Count what a drafted round gained or lost."""
        if not self._plain.rounds:  # then its cost in plain rounds is only known beforehand
            cost = 1 + chosen.risk
        if cost is not None:
            self._budget += len(round_.tokens) - cost

    def _ranked(self) -> list[Choice]:
        """All choices, the fastest first; computed once for rounds that change no estimate."""
        if not self._ranking:
            lengths = ((kind, kind.lengths(MAX_AUTO_GAMMA)) for kind in self._kinds)
            drafts = [Choice(kind, gamma) for kind, gammas in lengths for gamma in gammas]
            self._ranking = sorted([self._plainly, *drafts], key=_rate, reverse=True)
        return self._ranking

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
        return gamma in kind.lengths(max_gamma) and self._budget >= min(draft.risk, CREDIT)


def _rate(choice: Choice) -> float:
    return choice.rate


DraftLength = FixedDraftLength | AdaptiveDraftLength
