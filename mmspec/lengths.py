"""How many tokens to draft in a round: a fixed number, or what measured rounds favour.

A round of k drafted tokens yields E(k) = 1 + a_1 + a_1 a_2 + ... + a_1...a_k tokens on average,
a_i being the probability of keeping the i-th once those before it are kept, and takes c(k)
seconds; of a tree, k counts the levels.  `AutoLength` estimates both from the rounds as they come
and drafts the k with the largest E(k) / c(k), none where that is plain decoding.  Draft and verify
seconds are only used as a sum: a device that runs on while the host works shows the drafting's cost
in the verifying.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mmspec.estimates import LONGEST, TWICE, Acceptance, Account, RoundCosts
from mmspec.statistics import Round

LATE = 4
"""Plain rounds in a row after which a draft first has to catch up with what was said."""
ALLOWANCE, SHARE = 0.8, 0.008
"""What drafting may have lost: this many plain steps, and this share of the tokens so far."""
PATIENCE = 160
"""Tokens, older ones fading, after which costs known from before are put to the test even where
they forbid it: a busy moment may have made them."""
SOONEST, LATEST = 8, 256
"""Rounds between two trials of another length; doubled after each that changes nothing."""

TIMED = (
    "gamma auto: draft lengths follow measured times, so the same --seed may draw another text "
    "(from the same distribution)"
)
"""What there is to know where tokens are drawn."""


@dataclass(frozen=True, slots=True)
class FixedLength:
    """Always the same."""

    gamma: int

    def choose(self, limit: int) -> int:
        """Gamma, or fewer at the end of the budget."""
        return min(self.gamma, limit)

    def observe(self, round_: Round) -> None:
        """Learn nothing."""


class AutoLength:
    """The length with the most tokens per second, found while decoding.

    Starts with two plain rounds and a draft of one, at most doubles the longest tried, and tries
    another length at intervals that double as long as nothing comes of it.  Drafting stops where
    the account says that it has lost more than `ALLOWANCE` and `SHARE` against plain decoding.

    Where costs are known from before, the two plain rounds show how fast the machine is today;
    the other costs, scaled by that, then count as one measured round each.
    """

    def __init__(self, known: Mapping[int, float] | None = None) -> None:
        """Start from nothing, or from known seconds of rounds by length, plain ones included."""
        plain = known[0] if known else 1.0
        self._known = {k: seconds / plain for k, seconds in (known or {}).items() if k}
        self._acceptance = Acceptance()
        self._costs = RoundCosts()
        self._account = Account()
        self._expected = self._acceptance.expected()
        self._best = 0
        self._clock = 0
        self._tried_at: dict[int, int] = {}
        self._trying = False
        self._due, self._wait = 0, SOONEST
        self._plain_rounds = 0

    def choose(self, limit: int) -> int:
        """The tokens to draft next, 0 <= k <= limit."""
        self._trying = False
        if self._costs.count(0) < TWICE:
            return 0
        k = self._best
        if self._due <= 0:
            k, self._trying = self._trial(), True
        k = min(k, limit)
        return k if self._affordable(k) else 0

    def observe(self, round_: Round) -> None:
        """Learn what a round took and kept."""
        k, seconds = round_.depth, round_.draft_seconds + round_.verify_seconds
        late = k > 0 and self._plain_rounds > LATE
        self._plain_rounds = 0 if k else self._plain_rounds + 1
        self._costs.observe(k, seconds, late=late)
        if self._known and self._costs.count(0) == TWICE:
            self._presume()
        self._acceptance.observe(round_)
        self._account.observe(round_, seconds - self._costs.seconds(k) if late else 0.0)
        self._clock += 1
        self._tried_at[k] = self._clock
        before = self._best
        self._expected = self._acceptance.expected()
        self._best = max(range(self._longer + 1), key=self._rate)
        self._schedule(round_, changed=self._best != before)

    def verdict(self) -> str | None:
        """One line on why it decodes plainly; None as long as drafting pays, or is untried."""
        tried = [k for k in self._costs.tried if k]
        if self._best or not tried:
            return None
        k = max(tried, key=self._rate)
        steps = self._costs.seconds(k) / self._costs.seconds(0)
        return (
            f"gamma auto: decoding plainly, for a round that drafts {k} would give "
            f"{self._expected[k]:.2f} tokens and cost {steps:.2f} plain steps"
        )

    @property
    def measured(self) -> dict[int, float]:
        """Seconds of a round by length, of those that more than one round has shown, or that were
        known and have not proved wrong.
        """
        return self._costs.shown

    def _presume(self) -> None:
        """Take what is known for measured, at today's speed, and wait with other trials."""
        self._costs.tell({k: ratio * self._costs.seconds(0) for k, ratio in self._known.items()})
        self._known, self._due = {}, SOONEST

    @property
    def _longer(self) -> int:
        """The longest draft to consider now: twice the longest tried."""
        tried = self._costs.tried
        return min(max(2 * tried[-1], 1), LONGEST) if self._costs.count(0) else 0

    def _rate(self, k: int) -> float:
        return self._expected[k] / self._costs.seconds(k)

    def _trial(self) -> int:
        """Another length: the one tried longest ago of those that might be better, and plain.

        Where drafting loses whatever its cost may turn out to be, the least bad tells whether
        more is accepted by now.
        """
        bar = self._rate(self._best)
        lengths = {*self._costs.tried, self._longer, 1} - {self._best}
        able = [k for k in lengths if not k or self._expected[k] / self._costs.least(k) > bar]
        able = able or [max(lengths, key=self._rate)]
        borne = [k for k in able if self._affordable(k)] or [0]
        return min(borne, key=lambda k: (self._tried_at.get(k, 0), -self._rate(k)))

    def _affordable(self, k: int) -> bool:
        """Whether the account bears what a round of k may lose against plain decoding."""
        step = self._costs.seconds(0)
        trusted = self._account.tokens <= PATIENCE and self._costs.is_hearsay(k)
        cost = self._costs.seconds(k) if trusted else self._costs.presumed(k)
        risk = max(cost - self._expected[k] * step, 0.0) if k else 0.0
        lost = self._account.lost(self._costs)
        return not k or lost + risk <= (ALLOWANCE + SHARE * self._account.tokens) * step

    def _schedule(self, round_: Round, *, changed: bool) -> None:
        if changed:
            self._wait = self._due = SOONEST
        elif not self._trying:
            self._due -= 1
        elif not self._best and (round_.accepted or self._costs.is_in_question(round_.depth)):
            self._due = 0  # more of this may change the verdict: go on trying
        elif round_.drafted or self._best:
            self._wait = min(2 * self._wait, LATEST)
            self._due = self._wait
        self._trying = False  # a round may follow whose length another chose
