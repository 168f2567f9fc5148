"""Chooses how many tokens to draft: a fixed number, or by the measured cost and gain of each draft.

A round that drafts gamma tokens gives E(gamma) tokens on average and takes c(gamma) plain rounds;
the best draft has the largest E / c. Only the sum of drafting and verifying time is used: on an
asynchronous device the time of drafting shows up in verifying. Where the processor computes, it is
the time of this process alone: other programs are no cost of a draft.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from mmspec.decoding.draft import Draft, HostDraft, Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA, Acceptance, Reliability
from mmspec.draft_length.costs import MARGIN, PLAIN, Costs, RoundCosts
from mmspec.draft_length.rank_model import tree_tokens

TRIALS = 24
"""Rounds between trials of another draft while drafting pays."""
ALLOWANCE = 1.0
"""Plain rounds that drafting may lose at first: a token of unknown cost is presumed to take one."""
SHARE = 0.007
"""Plain rounds that drafting may lose for each decoded token, where it never pays."""
CREDIT = 8.0
"""Plain rounds that drafting may lose at most out of its gains: a change is soon noticed."""
RISK = 0.7
"""Part of the budget that a draft may lose, unless it is a trial; of its cost that lookup hopes."""


@dataclass(frozen=True, slots=True)
class FixedDraftLength:
    """Drafts the same number of tokens in every round."""

    gamma: int

    def choose(self, max_gamma: int, context: int) -> Plan:  # noqa: ARG002
        """The fixed length, or fewer tokens at the end of the answer."""
        return Plan(min(self.gamma, max_gamma))

    def cut(self, draft: Draft) -> Draft:
        """All of it: the length is fixed."""
        return draft

    def observe(self, round_: Round) -> None:
        """Do nothing: the length is fixed."""

    def plain_reason(self) -> None:
        """No line for the user: the length is fixed."""


class AdaptiveDraftLength:
    """Drafts what gives the most expected tokens per second, with bounded losses.

    Losses are bounded by a budget in plain rounds: ALLOWANCE, plus SHARE per token, plus gains and
    minus losses of drafting so far. A draft is made only if RISK of the budget covers its whole
    rejection, a trial if all of it does, so that a draft which never pays is tried only as often as
    the budget grows. The first rounds of a draft, slow perhaps only once, take no more than is
    left.
    """

    def __init__(
        self,
        calibrated: Costs | None = None,
        trees: Mapping[int, Costs] | None = None,
        *,
        nodes: int = 0,
    ) -> None:
        """calibrated: costs of chains that were measured before, if any.

        trees: those of trees by number of nodes; the drafter must be open with one as large. None
        drafts only what the drafter was opened for.  nodes: the most of drafts that take no time
        and carry estimates: then all is drafted, and the nodes that pay are verified.
        """
        self._calibrated = {0: calibrated} | dict(trees or {}) if calibrated else {}
        self._measured = RoundCosts(self._calibrated, nodes or MAX_AUTO_GAMMA)
        self._drafts_as_opened = trees is None
        self._acceptance = Acceptance()
        self._nodes, self._reliability, self._accepted = nodes, Reliability(), 0.0
        self._last_rounds: dict[Plan, int] = {}
        self._expected: dict[int, Sequence[float]] = {}
        self._costs: dict[int, Sequence[float]] = {}
        self._budget, self._rounds, self._answered = ALLOWANCE, 0, 0
        self._context, self._end = 0, -1
        self._least = 0.0
        """Plain rounds that the cheapest draft may lose."""
        self._chosen = self._best = PLAIN
        self._repeats, self._next_trial = False, TRIALS

    def choose(self, max_gamma: int, context: int) -> Plan:
        """What to draft after `context` positions, 0 <= gamma <= max_gamma."""
        is_new = context != self._end
        if is_new:  # another answer, which may be easier to draft
            renewed = min(ALLOWANCE, self._budget + SHARE * self._answered)
            self._budget, self._answered = max(self._budget, renewed), 0
        if is_new or self._rounds % TRIALS == 0:
            self._measured.move(context)
        self._context, most = context, min(max_gamma, MAX_AUTO_GAMMA)
        if (
            self._repeats
            and self._chosen.gamma <= most
            and self._risk(self._chosen) <= self._budget
        ):
            self._repeats = False
        elif not self._measured.knows_plain or self._budget < self._least:
            self._chosen = PLAIN
        elif self._nodes:
            self._chosen = Plan(most, most)
        else:
            self._update()
            self._chosen = self._decide(most)
        gamma, nodes = self._chosen
        return Plan(gamma, None if self._drafts_as_opened else nodes)

    def cut(self, draft: Draft) -> Draft | None:
        """The nodes that give the most expected tokens per second, of those the budget covers."""
        if not (self._nodes and isinstance(draft, HostDraft)):
            return draft
        chances = map(self._reliability.corrected, draft.chances[: self._nodes])
        tokens = [*accumulate(chances, initial=1.0)]
        costs = self._measured.line_of(0)[: len(tokens)]
        rates = [gain / cost for gain, cost in zip(tokens, costs, strict=True)]
        safe = [count for count, cost in enumerate(costs) if cost - 1 <= RISK * self._budget]
        best = max(safe, key=rates.__getitem__)
        if not best:  # perhaps one costs less than it seems
            trials = [count for count, cost in enumerate(costs) if cost - 1 <= self._budget]
            best = max(trials, key=lambda count: tokens[count] / (1 + RISK * (costs[count] - 1)))
        self._accepted = tokens[best] - 1
        return draft.first(best)

    def observe(self, round_: Round) -> None:
        """Observe a round's cost and acceptance; it may have drafted fewer tokens than chosen."""
        tokens, gamma = len(round_.tokens), round_.drafted if self._nodes else round_.depth
        draft = Plan(gamma, max(self._chosen.tree, gamma)) if gamma else PLAIN
        self._rounds += 1
        self._answered += tokens
        self._end = self._context + tokens
        self._last_rounds[draft] = self._rounds
        self._measured.measure(draft, round_.cost_seconds)
        if gamma and self._measured.knows_plain:
            self._acceptance.observe(round_)
            self._reliability.observe(min(round_.accepted, tokens - 1), self._accepted)
            gain = tokens - self._measured.charge(draft)
            left = self._budget + gain
            if not self._measured.knows(draft):  # its first rounds may be slow only once
                left = max(left, min(self._budget, 0.0))
            self._budget = left
        self._budget = min(self._budget + SHARE * tokens, CREDIT)

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while drafting pays or its cost is unknown."""
        drafts = self._candidates(MAX_AUTO_GAMMA)
        drafts = [draft for draft in drafts if self._calibrated or draft in self._last_rounds]
        if not self._measured.knows_plain or not drafts:
            return None
        self._update()
        best = max(drafts, key=self._rate)
        if self._rate(best) > 1:
            lost = "gamma auto: decoding plainly for a while, for drafts lost what they may lose"
            return lost if self._budget < min(map(self._risk, drafts)) else None
        return (
            f"gamma auto: decoding plainly, for a round that drafts {best.gamma} would give "
            f"{self._expected[best.tree][best.gamma]:.2f} tokens and cost "
            f"{self._risk(best) + 1:.2f} plain rounds"
        )

    def _decide(self, most: int) -> Plan:
        """The best draft that RISK of the budget covers, or one to try in its place."""
        drafts = self._candidates(most)
        self._least = min(map(self._risk, drafts), default=0.0)
        drafts = [draft for draft in drafts if self._risk(draft) <= self._budget]
        safe = [draft for draft in drafts if self._risk(draft) <= RISK * self._budget] or drafts[:1]
        best = self._best = max([PLAIN, *safe], key=self._promise)
        if not best.gamma:  # the budget has grown enough for a trial
            chains = [draft for draft in drafts if not draft.tree]
            return max(chains, key=self._rate, default=PLAIN)
        if self._rounds < self._next_trial:
            return best
        self._next_trial = self._rounds + TRIALS
        self._repeats = True  # the first round of a draft is slow
        beside = {Plan(gamma, max(best.tree, gamma)) for gamma in (best.gamma - 1, best.gamma + 1)}
        least = self._rate(best) / MARGIN
        rivals = [d for d in drafts if d != best and (d in beside or self._rate(d) > least)]
        return max([PLAIN, *rivals], key=self._rate_by_age)

    def _candidates(self, most: int) -> list[Plan]:
        """Drafts of up to `most` tokens or levels; uncalibrated ones twice as long as any known."""
        known = [draft.gamma for draft in self._last_rounds]
        known += self._calibrated[0](self._context) if self._calibrated else ()
        reach = min(most, max(2 * max(known, default=0), 1))
        chains = [Plan(gamma, gamma) for gamma in range(1, reach + 1)]
        return chains + [Plan(g, n) for n in self._calibrated for g in range(2, min(most + 1, n))]

    def _rate(self, draft: Plan) -> float:
        """Expected tokens per plain round."""
        return self._expected[draft.tree][draft.gamma] / self._costs[draft.tree][draft.gamma]

    def _promise(self, draft: Plan) -> float:
        """The rate; for the draft in use MARGIN times as much."""
        return self._rate(draft) * (MARGIN if draft == self._best and draft.gamma else 1)

    def _rate_by_age(self, draft: Plan) -> float:
        """The rate times the rounds since the draft was tried."""
        return self._rate(draft) * (self._rounds - self._last_rounds.get(draft, 0))

    def _risk(self, draft: Plan) -> float:
        """Plain rounds that are lost if the whole draft is rejected."""
        return self._costs[draft.tree][draft.gamma] - 1

    def _update(self) -> None:
        """Estimate anew what drafts gain and cost."""
        mean, chain = round(self._acceptance.mean, 2), self._acceptance.expected_tokens()
        kinds = self._calibrated or (0,)
        self._expected = {n: tree_tokens(mean, n) if n else chain for n in kinds}
        self._costs = {n: self._measured.line_of(n) for n in kinds}


DraftLength = FixedDraftLength | AdaptiveDraftLength
