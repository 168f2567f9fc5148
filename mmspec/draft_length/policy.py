"""Chooses how many tokens to draft: a fixed number, or by the cost and the gain of each draft.

A draft brings n tokens on average, and its round takes c plain rounds; the best has the largest
n / c. Chains, trees, blocks and lookup's nodes differ in what tells n: how often the tokens of
chains were accepted, and a model of trees, before drafting; the drafter's estimates, after it. Only
the time of a whole round is used: on an asynchronous device the time of drafting shows up in
verifying. Where the processor computes, it is the time of this process alone: other programs are no
cost of a draft.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import DECAY, MAX_AUTO_GAMMA, MEMORY, Acceptance, Reliability
from mmspec.draft_length.calibration_file import Costs
from mmspec.draft_length.round_costs import PLAIN, Candidate, RoundCosts

TOKEN = 0.5
"""Plain rounds that a drafted token or block is presumed to cost uncalibrated; 1 is 3 % slower."""
SHARE = 0.004
"""Plain rounds that drafting may lose for each decoded token: 0.8 % at most from 128 tokens on."""


class FixedDraftLength:
    """Drafts the same number of tokens in every round."""

    def __init__(self, gamma: int) -> None:
        self.gamma = gamma
        self._reliability, self._estimate = Reliability(), 0.0
        self._rounds, self._acceptances = 1.0, gamma / 2
        """Rounds that drafted and the tokens that they accepted, as the latest ones weigh."""

    @property
    def pace(self) -> float:
        """Expected tokens of a round that drafts."""
        return 1 + self._acceptances / self._rounds

    def choose(self, max_gamma: int, context: int) -> Plan:  # noqa: ARG002
        """The fixed length, or fewer tokens at the end of the answer."""
        return Plan(min(self.gamma, max_gamma))

    def pays(self, chances: Sequence[float], pace: float) -> int:
        """All nodes of lookup's draft, or none if less than `pace` tokens are expected."""
        self._estimate = sum(map(self._reliability.correct, chances))
        return len(chances) if 1 + self._estimate >= pace else 0

    def observe(self, round_: Round) -> None:
        """Learn how many tokens drafts accept."""
        if round_.depth:
            self._rounds = DECAY * self._rounds + 1
            self._acceptances = DECAY * self._acceptances + round_.accepted
            self._reliability.observe(round_.accepted, self._estimate)

    def plain_reason(self) -> str | None:
        """No line for the user: the length is fixed."""
        return None


class AdaptiveDraftLength:
    """Drafts what gives the most expected tokens per second, with bounded losses.

    Losses are bounded by a budget in plain rounds: one, and SHARE per token, plus gains and minus
    losses of drafting so far, but at most as many as the longest draft has tokens. The best draft
    is made if half of the budget covers its whole rejection, a trial if all of it does: so a draft
    that never pays is tried only as often as the budget grows.
    """

    def __init__(
        self,
        costs: Costs | None = None,
        trees: Mapping[int, Costs] | None = None,
        *,
        nodes: int = 0,
        drafts_blocks: bool = False,
    ) -> None:
        """costs: those of chains that were calibrated, if any.

        trees: those of trees by number of nodes; the drafter must be open with one as large. None
        drafts only what the drafter was opened for.  nodes: the most of drafts that take no time
        and carry estimates: then all is drafted, and the nodes that pay are verified.
        drafts_blocks: True if a whole block takes little more time, and chains carry estimates too.
        """
        self._longest = nodes or MAX_AUTO_GAMMA
        gammas = range(self._longest + 1)
        guess = {k: 1 + TOKEN * (min(k, 1) if drafts_blocks else k) for k in gammas}
        curves = {0: costs} | dict(trees or {}) if costs else {0: lambda _: guess}
        self._costs = RoundCosts(curves, self._longest, MEMORY if costs else 0)
        self._trees = curves.keys() - {0}
        self._drafts_as_opened, self._nodes = trees is None, nodes
        self._drafts_blocks = drafts_blocks
        self._acceptance, self._reliability, self._estimate = Acceptance(), Reliability(), 0.0
        self._budget, self._rounds, self._choice = 1.0, 0, PLAIN
        self.pace = 1.0
        """Expected tokens per plain round of the best draft."""

    def choose(self, max_gamma: int, context: int) -> Plan:
        """What to draft after `context` positions, 0 <= gamma <= max_gamma."""
        # A choice holds for two rounds: it takes time, and the first of another draft is slow.
        if self._rounds % 2 == 0 or not self._covers(self._choice):
            self._costs.move(context)
            self._choice = self._decide()
        nodes, gamma = self._choice.nodes, min(self._choice.gamma, max_gamma)
        pays: Callable[[Sequence[float]], int] | None = self.pays if self._nodes else None
        if self._drafts_blocks and gamma and not nodes:
            gamma, pays = min(MAX_AUTO_GAMMA, max_gamma), self._pays_of_block
        return Plan(gamma, None if self._drafts_as_opened else nodes or gamma, pays)

    def _decide(self) -> Candidate:
        """The best draft that the budget covers, or one to try in its place."""
        if not self._costs.knows_plain:
            return PLAIN
        if self._nodes:
            return Candidate(0, MAX_AUTO_GAMMA) if self._budget > 0 else PLAIN
        rates = self._rates()
        safe = [draft for draft in rates if self._covers(draft, times=2)]
        best = max([PLAIN, *safe], key=rates.__getitem__)
        self.pace = rates[best]
        if best == PLAIN:  # the budget may have grown enough for a trial
            chains = (draft for draft in filter(self._covers, rates) if not draft.nodes)
            trials = (draft for draft in chains if draft.gamma + 1 > self._costs.of(draft))
            return max(trials, key=rates.__getitem__, default=PLAIN)
        trial, place = divmod(self._rounds, MEMORY)
        beside = best._replace(gamma=best.gamma + (-1 if trial % 2 else 1))
        return beside if place >= MEMORY - 2 and beside in rates and self._covers(beside) else best

    def _covers(self, draft: Candidate, times: int = 1) -> bool:
        """True if the budget covers that so many drafts are rejected."""
        return times * (self._costs.of(draft) - 1) <= self._budget

    def pays(self, chances: Sequence[float], pace: float = 1.0, times: int = 2) -> int:
        """The number of first nodes that gain most; 0 if none that the budget covers gains.

        chances: the drafter's estimates.  pace: tokens per plain round of the alternative.  times:
        rejections that the budget must cover.
        """
        if not self._costs.knows_drafts:
            pace = 1.0  # to learn what they cost
        estimates = [*accumulate(map(self._reliability.correct, chances[: self._longest]))]
        count, most, self._estimate = 0, 0.0, sum(estimates[:1])  # of a block one is verified
        for nodes, estimate in enumerate(estimates, 1):
            gain = 1 + estimate - pace * self._costs.of(draft := Candidate(0, nodes))
            if gain > most and self._covers(draft, times):
                count, most, self._estimate = nodes, gain, estimate
        return count

    def _pays_of_block(self, chances: Sequence[float]) -> int:
        """As `pays`; the block is drafted, so a trial spends what one rejection may lose."""
        return self.pays(chances) or self.pays(chances, times=1) or 1

    def observe(self, round_: Round) -> None:
        """Observe a round's cost and acceptance; it may have drafted fewer tokens than chosen."""
        tokens, size = len(round_.tokens), round_.drafted if self._nodes else round_.depth
        draft = Candidate(self._choice.nodes, size) if size else PLAIN
        self._rounds += 1
        self._costs.measure(draft, round_.cost_seconds)
        if size:
            self._acceptance.observe(round_)
            self._reliability.observe(min(round_.accepted, tokens - 1), self._estimate)
            self._budget += tokens - self._costs.of(draft)
        self._budget = min(self._budget + SHARE * tokens, MAX_AUTO_GAMMA)

    def plain_reason(self) -> str | None:
        """A line saying why decoding is plain; None while drafting pays or its cost is unknown."""
        if not self._costs.knows_plain:
            return None
        rates = self._rates()
        del rates[PLAIN]
        best = max(rates, key=rates.__getitem__)
        if rates[best] > 1:
            lost = "gamma auto: decoding plainly for a while, for drafts lost what they may lose"
            return None if any(map(self._covers, rates)) else lost
        cost = self._costs.of(best)
        return (
            f"gamma auto: decoding plainly, for a round that drafts {best.gamma} would give "
            f"{rates[best] * cost:.2f} tokens and cost {cost:.2f} plain rounds"
        )

    def _rates(self) -> dict[Candidate, float]:
        """Expected tokens per plain round of all drafts: of trees, from two levels on."""
        tokens = {(0, gamma): n for gamma, n in enumerate(self._acceptance.expected_tokens())}
        for nodes in self._trees:
            model = self._acceptance.tree_tokens(nodes)
            tokens |= {(nodes, levels): model[levels] for levels in range(2, len(model))}
        return {(d := Candidate(*size)): n / self._costs.of(d) for size, n in tokens.items()}


OneDraftLength = FixedDraftLength | AdaptiveDraftLength
