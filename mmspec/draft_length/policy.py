"""Chooses how many tokens to draft: a fixed number, or by the measured cost and gain of each draft.

A round that drafts gamma tokens gives E(gamma) tokens on average and takes c(gamma) plain rounds;
the best draft has the largest E / c. Only the sum of drafting and verifying time is used: on an
asynchronous device the time of drafting shows up in verifying. Where the processor computes, it is
the time of this process alone: other programs are no cost of a draft.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import inf

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import DECAY, MAX_AUTO_GAMMA, SMOOTHING, Acceptance, Reliability
from mmspec.draft_length.cost_curves import Costs
from mmspec.draft_length.rank_model import tree_tokens
from mmspec.draft_length.round_costs import FEW, PLAIN, Candidate, RoundCosts

TRIALS = 24
"""Rounds between trials of another draft while drafting pays, later a sixteenth of all rounds."""
STAY = 1.05
"""Factor by which another draft must promise more than the one in use: to change costs time."""
ALLOWANCE = 1.0
"""Plain rounds that drafting may lose at the start of a session: enough to try the shortest."""
SHARE = 0.007
"""Plain rounds that drafting may lose for each decoded token, where it never pays."""
CREDIT = 8.0
"""Plain rounds that drafting may lose at most out of its gains: a change is soon noticed."""
TREE_GAIN = 1.12
"""Factor by which a tree must promise more than a chain: the model of its gain is less sure."""
HOPE = 0.75
"""Part of a draft's additional cost that is presumed where no draft pays: costs are learnt."""


class FixedDraftLength:
    """Drafts the same number of tokens in every round."""

    def __init__(self, gamma: int) -> None:
        self.gamma = gamma
        self._reliability, self._expected = Reliability(), 0.0
        self._rounds, self._accepted = SMOOTHING, SMOOTHING * gamma / 2
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
        self._last_rounds: dict[Candidate, int] = {}
        self._expected: dict[int, Sequence[float]] = {}
        self._costs: dict[int, Sequence[float]] = {}
        self._budget, self._rounds, self._answered = ALLOWANCE, 0, 0
        self._context, self._end = 0, -1
        self._least = 0.0
        """Plain rounds that the cheapest draft may lose."""
        self._chosen = self._best = PLAIN
        self._repeats, self._next_trial = 0, TRIALS

    def choose(self, max_gamma: int, context: int) -> Plan:
        """What to draft after `context` positions, 0 <= gamma <= max_gamma."""
        if context != self._end:  # another answer, which may be easier to draft
            renewed = min(ALLOWANCE, self._budget + SHARE * self._answered)
            self._budget, self._answered = max(self._budget, renewed), 0
        self._measured.move(context)
        self._context, most = context, min(max_gamma, MAX_AUTO_GAMMA)
        if self._repeats and self._chosen.gamma <= most and self._allows(self._chosen):
            self._repeats -= 1
        elif not self._measured.knows_plain or self._budget < self._least:
            self._chosen = PLAIN
        elif self._nodes:
            self._chosen = Candidate(0, most)
        else:
            self._update()
            self._chosen = self._decide(most)
        nodes, gamma = self._chosen
        most_nodes = None if self._drafts_as_opened else nodes or gamma
        return Plan(gamma, most_nodes, self.pays if self._nodes else None)

    def pays(self, chances: Sequence[float], pace: float = 1.0) -> int:
        """The number of nodes of lookup's draft that give the most expected tokens per plain round.

        0 if none that the budget covers gives more than `pace`.
        """
        corrected = map(self._reliability.corrected, chances[: self._nodes])
        tokens = [*accumulate(corrected, initial=1.0)]
        risks = [cost - 1 for cost in self._measured.line_of(0)[: len(tokens)]]
        if not self._calibrated and len(self._measured.measured) < 2:
            pace = 1.0  # to learn the cost of a draft

        def best(budget: float, part: float) -> int:
            counts = (count for count, risk in enumerate(risks) if count and risk <= budget)
            rates = {count: tokens[count] / (1 + part * risks[count]) for count in counts}
            return max([0, *rates], key=lambda count: rates.get(count, pace))

        count = best(self._limit, 1.0)
        if not count and pace <= 1:  # perhaps one costs less than it seems
            count = best(self._budget, HOPE)
        self._accepted = tokens[count] - 1
        return count

    @property
    def pace(self) -> float:
        """Expected tokens per plain round of the best draft; infinite for the first of its size."""
        nodes, gamma = self._best if self._chosen.gamma else PLAIN
        if self._chosen.gamma and self._chosen not in self._measured.measured:
            return inf
        return self._expected[nodes][gamma] / self._costs[nodes][gamma] if gamma else 1.0

    def pass_by(self, round_: Round) -> None:
        """Another drafter drafted the planned round."""
        self._answered += len(round_.tokens)
        self._end = self._context + len(round_.tokens)

    def observe(self, round_: Round) -> None:
        """Observe a round's cost and acceptance; it may have drafted fewer tokens than chosen."""
        tokens, gamma = len(round_.tokens), round_.drafted if self._nodes else round_.depth
        draft = Candidate(self._chosen.nodes if gamma else 0, gamma)
        self._rounds += 1
        self._answered += tokens
        self._end = self._context + tokens
        self._last_rounds[draft] = self._rounds
        self._measured.measure(draft, round_.cost_seconds)
        if gamma and self._measured.knows_plain:
            self._acceptance.observe(round_)
            self._reliability.observe(min(round_.accepted, tokens - 1), self._accepted)
            self._budget += tokens - self._measured.line_of(draft.nodes)[gamma]
        self._budget = min(self._budget + SHARE * tokens, CREDIT)

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while drafting pays or its cost is unknown."""
        drafts = self._candidates(MAX_AUTO_GAMMA)
        drafts = [draft for draft in drafts if self._calibrated or draft in self._measured.measured]
        if not self._measured.knows_plain or not drafts:
            return None
        self._update()
        best = max(drafts, key=self._rate)
        if self._rate(best) > 1:
            lost = "gamma auto: decoding plainly for a while, for drafts lost what they may lose"
            return lost if self._budget < min(map(self._risk, drafts)) else None
        tokens, cost = self._expected[best.nodes][best.gamma], self._risk(best) + 1
        return (
            f"gamma auto: decoding plainly, for a round that drafts {best.gamma} would give "
            f"{tokens:.2f} tokens and cost {cost:.2f} plain rounds"
        )

    def _decide(self, most: int) -> Candidate:
        """The best draft that the budget covers, or one to try in its place."""
        self._repeats, drafts = 0, self._candidates(most)
        self._least = min(map(self._risk, drafts), default=0.0)
        drafts = [draft for draft in drafts if self._allows(draft)]
        safe = [draft for draft in drafts if self._risk(draft) <= self._limit] or drafts[:1]
        best = self._best = max([PLAIN, *safe], key=self._promise)
        if not best.gamma:  # the budget has grown enough for a trial
            if self._age(PLAIN) > FEW:  # a cost is compared with the plain rounds beside it
                return PLAIN
            chains = [draft for draft in drafts if not draft.nodes]
            return max(chains, key=self._rate, default=PLAIN)
        if self._rounds < self._next_trial:
            is_new = best not in self._measured.measured
            self._repeats = int(is_new)  # the first round of a draft is slow
            return best
        self._next_trial = self._rounds + max(TRIALS, self._rounds // 16)
        self._repeats = 1
        if self._age(PLAIN) > 20 * TRIALS:
            return PLAIN
        beside = {best._replace(gamma=best.gamma + step) for step in (-1, 1)}
        least = self._rate(best) / STAY
        rivals = [draft for draft in drafts if draft in beside or self._rate(draft) > least]
        return max((draft for draft in rivals if draft != best), key=self._age, default=best)

    def _candidates(self, most: int) -> list[Candidate]:
        """Drafts of up to `most` tokens or levels; uncalibrated ones twice as long as any known."""
        known = [draft.gamma for draft in self._measured.measured]
        known += self._calibrated[0](self._context) if self._calibrated else ()
        reach = min(most, max(2 * max(known, default=0), 1))
        trees = [Candidate(n, gamma) for n in self._calibrated if n for gamma in range(2, most + 1)]
        return [*(Candidate(0, gamma) for gamma in range(1, reach + 1)), *trees]

    def _rate(self, draft: Candidate) -> float:
        """Expected tokens per plain round; for a tree TREE_GAIN times less."""
        expected = self._expected[draft.nodes][draft.gamma]
        return expected / (self._risk(draft) + 1) / (TREE_GAIN if draft.nodes else 1)

    def _promise(self, draft: Candidate) -> float:
        """The rate; for the draft in use STAY times as much."""
        return self._rate(draft) * (STAY if draft == self._best and draft.gamma else 1)

    def _risk(self, draft: Candidate) -> float:
        """Plain rounds that are lost if the whole draft is rejected."""
        return self._costs[draft.nodes][draft.gamma] - 1

    def _allows(self, draft: Candidate) -> bool:
        """True if the budget covers the draft's entire rejection."""
        return self._risk(draft) <= self._budget

    def _age(self, draft: Candidate) -> int:
        """Rounds since the draft was tried; one that was never tried is old."""
        return self._rounds - self._last_rounds.get(draft, -7 * TRIALS)

    @property
    def _limit(self) -> float:
        """Plain rounds that a draft may lose, so that bad luck leaves a half of the budget."""
        return inf if self._budget >= CREDIT else self._budget / 2

    def _update(self) -> None:
        """Estimate anew what drafts gain and cost."""
        kinds, acceptance = self._calibrated or (0,), self._acceptance
        self._expected = {0: acceptance.expected_tokens()}
        for nodes in filter(None, kinds):
            self._expected[nodes] = tree_tokens(acceptance.mean, nodes)
        self._costs = {nodes: self._measured.line_of(nodes) for nodes in kinds}
