"""Chooses how many tokens to draft: a fixed number, or by the measured cost and gain of each draft.

A round that drafts gamma tokens gives E(gamma) tokens on average and takes c(gamma) plain rounds;
the best draft has the largest E / c. Only the time of a whole round is used: on an asynchronous
device the time of drafting shows up in verifying. Where the processor computes, it is the time of
this process alone: other programs are no cost of a draft.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import inf
from operator import mul

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import DECAY, MAX_AUTO_GAMMA, Acceptance, Reliability
from mmspec.draft_length.cost_curves import Costs
from mmspec.draft_length.rank_model import tree_tokens
from mmspec.draft_length.round_costs import PLAIN, Candidate, RoundCosts

TRIALS = 40
"""Rounds between trials of a draft two tokens longer or one shorter, or of plain rounds."""
TURN = 2
"""Rounds for which a choice holds: to choose takes time, and the first of another draft is slow."""
ALLOWANCE = 1.0
"""Plain rounds that drafting may lose at the start of a session: enough to try the shortest."""
SHARE = 0.004
"""Plain rounds that drafting may lose for each decoded token, where it never pays."""
CREDIT = 8.0
"""Plain rounds that drafting may lose at most out of its gains: a change is soon noticed."""
HOPE = 0.75
"""Share of a draft's additional cost that is presumed where none pays, to measure it again."""


class FixedDraftLength:
    """Drafts the same number of tokens in every round."""

    def __init__(self, gamma: int) -> None:
        self.gamma = gamma
        self._reliability, self._expected = Reliability(), 0.0
        self._rounds, self._accepted = 1.0, gamma / 2
        """Rounds that drafted and the tokens that they accepted, as the latest ones weigh."""

    @property
    def pace(self) -> float:
        """Expected tokens of a round that drafts."""
        return 1 + self._accepted / self._rounds

    def choose(self, max_gamma: int, context: int) -> Plan:  # noqa: ARG002
        """The fixed length, or fewer tokens at the end of the answer."""
        return Plan(min(self.gamma, max_gamma))

    def pays(self, chances: Sequence[float], pace: float) -> int:
        """All nodes of lookup's draft, or none if less than `pace` tokens are expected."""
        self._expected = sum(map(self._reliability.corrected, chances))
        return len(chances) if 1 + self._expected >= pace else 0

    def observe(self, round_: Round) -> None:
        """Learn how many tokens drafts accept."""
        if round_.depth:
            self._rounds = DECAY * self._rounds + 1
            self._accepted = DECAY * self._accepted + round_.accepted
            self._reliability.observe(round_.accepted, self._expected)

    def pass_by(self, round_: Round) -> None:
        """Do nothing: another drafter's round teaches nothing."""

    def plain_reason(self) -> str | None:
        """No line for the user: the length is fixed."""
        return None


class AdaptiveDraftLength:
    """Drafts what gives the most expected tokens per second, with bounded losses.

    Losses are bounded by a budget in plain rounds: ALLOWANCE, plus SHARE per token, plus gains and
    minus losses of drafting so far. A draft is made only if the budget covers its whole rejection,
    so that a draft which never pays is tried only as often as the budget grows.
    """

    def __init__(
        self,
        calibrated: Costs | None = None,
        trees: Mapping[int, Costs] | None = None,
        *,
        nodes: int = 0,
        cuts: bool = False,
    ) -> None:
        """calibrated: costs of chains that were measured before, if any.

        trees: those of trees by number of nodes; the drafter must be open with one as large. None
        drafts only what the drafter was opened for.  nodes: the most of drafts that take no time
        and carry estimates: then all is drafted, and the nodes that pay are verified.  cuts: True
        if drafts of a whole block take little more time, and chains carry estimates too.
        """
        kinds = {0: calibrated} | dict(trees or {}) if calibrated else {}
        self._measured = RoundCosts(kinds, nodes or MAX_AUTO_GAMMA, blocks=cuts)
        self._drafts_as_opened, self._nodes, self._cuts = trees is None, nodes, cuts
        self._acceptance, self._reliability, self._hoped = Acceptance(), Reliability(), [0.0]
        self._budget, self._answered, self._context, self._end = ALLOWANCE, 0, 0, -1
        self._right, self._modelled = 1.0, 1.0
        """Tokens that trees drafted right, and those that were expected of them."""
        self._rounds, self._expected = 0, self._estimate()
        self._chosen = self._best = PLAIN
        self._least = 0.0
        """The budget that the cheapest draft needs; 0 in a new answer and after a draft."""

    def choose(self, max_gamma: int, context: int) -> Plan:
        """What to draft after `context` positions, 0 <= gamma <= max_gamma."""
        if context != self._end:  # another answer, which may be easier to draft
            renewed = min(ALLOWANCE, self._budget + SHARE * self._answered)
            self._budget, self._answered = max(self._budget, renewed), 0
            self._least = 0.0
        self._measured.move(context)
        self._context, most = context, min(max_gamma, MAX_AUTO_GAMMA)
        if not self._measured.knows_plain or self._budget < self._least:
            self._chosen = self._best = PLAIN
        elif self._nodes:
            self._chosen = Candidate(0, MAX_AUTO_GAMMA)
        elif self._rounds % TURN == 0 or self._risk(self._chosen) > self._budget:
            self._chosen = self._decide()
        nodes, gamma = self._chosen.nodes, min(self._chosen.gamma, most)
        if self._cuts and gamma and not nodes:
            return Plan(most, None if self._drafts_as_opened else most, self._cut)
        most_nodes = None if self._drafts_as_opened else nodes or gamma
        return Plan(gamma, most_nodes, self.pays if self._nodes else None)

    def _decide(self) -> Candidate:
        """The best draft that the budget covers, or one to try in its place."""
        self._expected = self._estimate()
        costs = {draft: self._measured.of(draft) for draft in self._measured.drafts}
        self._least = max(min(costs.values()) - 1, 0.0)
        costs = {draft: cost for draft, cost in costs.items() if cost - 1 <= self._budget}
        rates = {draft: self._expected[draft.nodes][draft.gamma] / costs[draft] for draft in costs}
        safe = [draft for draft, cost in costs.items() if cost - 1 <= self._budget / 2]
        self._best = max([PLAIN, *safe], key=lambda draft: rates.get(draft, 1.0))
        if not self._best.gamma:  # the budget may have grown enough for a trial
            chains = [draft for draft in costs if not draft.nodes]
            return max(chains, key=rates.__getitem__, default=PLAIN)
        trial, place = divmod(self._rounds, TRIALS)
        if place < TRIALS - TURN:
            return self._best
        beside = (self._best._replace(gamma=self._best.gamma + step) for step in (2, -1))
        trials = [PLAIN, *(draft for draft in beside if draft in costs)]
        return trials[trial % len(trials)]

    def pays(self, chances: Sequence[float], pace: float = 1.0) -> int:
        """The number of nodes of lookup's draft that give the most expected tokens per plain round.

        0 if none that the budget covers gives more than `pace`.
        """
        corrected = map(self._reliability.corrected, chances[: self._nodes])
        tokens = [*accumulate(corrected, initial=1.0)]
        costs = [self._measured.of(Candidate(0, count)) for count in range(len(tokens))]
        if not self._measured.is_calibrated and len(self._measured.measured) < 2:
            pace = 1.0  # to learn the cost of a draft

        def best(budget: float, part: float) -> int:
            counts = (count for count, cost in enumerate(costs) if count and cost - 1 <= budget)
            rates = {count: tokens[count] / (1 + part * (costs[count] - 1)) for count in counts}
            return max([0, *rates], key=lambda count: rates.get(count, pace))

        count = best(self._budget / 2, 1.0)
        if not count and pace <= 1:  # perhaps one costs less than it seems
            count = best(self._budget, HOPE)
        self._hoped = [tokens[count] - 1]
        return count

    def _cut(self, chances: Sequence[float]) -> int:
        """The number of a block's tokens that gain most over the best length's pace; at least 1."""
        each = (chance / (before or 1.0) for before, chance in pairwise([1.0, *chances]))
        hoped = [*map(self._reliability.corrected, each)]
        tokens = [*accumulate(accumulate(hoped, mul), initial=1.0)]
        pace = max(1.0, self._rate(self._best))
        gains = [n - pace * self._measured.of(Candidate(0, k)) for k, n in enumerate(tokens)]
        count = max(range(1, len(tokens)), key=gains.__getitem__)
        self._hoped = hoped[:count]
        return count

    @property
    def pace(self) -> float:
        """Expected tokens per plain round of the best draft; infinite for the first of its size."""
        is_new = self._chosen.gamma > 0 and self._chosen not in self._measured.measured
        return inf if is_new else self._rate(self._best)

    def pass_by(self, round_: Round) -> None:
        """Another drafter drafted the planned round."""
        self._answered += len(round_.tokens)
        self._end = self._context + len(round_.tokens)

    def observe(self, round_: Round) -> None:
        """Observe a round's cost and acceptance; it may have drafted fewer tokens than chosen."""
        tokens, gamma = len(round_.tokens), round_.drafted if self._nodes else round_.depth
        draft = Candidate(self._chosen.nodes, gamma) if gamma else PLAIN
        self.pass_by(round_)
        self._rounds += 1
        self._measured.measure(draft, round_.cost_seconds)
        if gamma and self._measured.knows_plain:
            self._least = 0.0
            self._acceptance.observe(round_)
            accepted = min(round_.accepted, tokens - 1)
            if draft.nodes:
                expected = tree_tokens(self._percent, draft.nodes)[gamma] - 1
                self._right = DECAY * self._right + accepted
                self._modelled = DECAY * self._modelled + expected
            self._reliability.observe(accepted, sum(self._hoped[: accepted + 1]))
            self._budget += tokens - 1 - self._risk(draft)
        self._budget = min(self._budget + SHARE * tokens, CREDIT)

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while drafting pays or its cost is unknown."""
        drafts = self._measured.drafts
        if not self._measured.knows_plain:
            return None
        self._expected = self._estimate()
        best = max(drafts, key=self._rate)
        if self._rate(best) > 1:
            lost = "gamma auto: decoding plainly for a while, for drafts lost what they may lose"
            return lost if self._budget < min(map(self._risk, drafts)) else None
        cost = self._risk(best) + 1
        return (
            f"gamma auto: decoding plainly, for a round that drafts {best.gamma} would give "
            f"{self._rate(best) * cost:.2f} tokens and cost {cost:.2f} plain rounds"
        )

    def _rate(self, draft: Candidate) -> float:
        """Expected tokens per plain round."""
        return self._expected[draft.nodes][draft.gamma] / (self._risk(draft) + 1)

    def _estimate(self) -> dict[int, Sequence[float]]:
        """Expected tokens of drafts by their nodes, 0 for chains, and gamma."""
        expected: dict[int, Sequence[float]] = {0: self._acceptance.expected_tokens()}
        share = self._right / self._modelled
        for nodes in self._measured.kinds - {0}:
            modelled = tree_tokens(self._percent, nodes)
            expected[nodes] = [1 + (tokens - 1) * share for tokens in modelled]
        return expected

    @property
    def _percent(self) -> int:
        """The acceptance to the next 5 %: each other value costs the model's computation."""
        return min(max(5 * round(20 * self._acceptance.mean), 5), 95)

    def _risk(self, draft: Candidate) -> float:
        """Plain rounds that are lost if the whole draft is rejected."""
        return self._measured.of(draft) - 1
