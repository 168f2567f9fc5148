"""How many tokens to draft in a round: a fixed number, or what measured rounds favour.

A round of k drafted tokens yields E(k) = 1 + a_1 + a_1 a_2 + ... + a_1...a_k tokens on average,
a_i being the probability of keeping the i-th once those before it are kept, and takes c(k)
seconds; of a tree, k counts the levels.  `AutoLength` estimates both from the rounds as they come
and drafts the k with the largest E(k) / c(k), none where that is plain decoding.  Draft and verify
seconds are only used as a sum: a device that runs on while the host works shows the drafting's cost
in the verifying.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low

from mmspec.statistics import Round

LONGEST = 8
"""The longest draft that is tried."""
MEMORY = 0.95
"""What a judged token still counts after the next one in its place: some twenty are remembered."""
PRIOR = 0.6
"""The probability of keeping a token before any has been judged, worth two judged ones."""
SAMPLES = 9
"""Rounds of one length whose median is its cost."""
PROVEN = 3
"""Rounds after which a measured cost is no longer taken for an outlier."""
TWICE = 2
"""Rounds of which the faster did not only warm up."""
FAR = 2
"""How many times off a cost known from before may turn out to be."""
LATE = 4
"""Plain rounds in a row after which a draft first has to catch up with what was said."""
ALLOWANCE, SHARE = 0.8, 0.008
"""What drafting may have lost: this many plain steps, and this share of the tokens so far."""
FADE = 0.998
"""What a round still counts in that account after the next one."""
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


class Acceptance:
    """Running probabilities of keeping a drafted token, by its place in the draft."""

    def __init__(self) -> None:
        """Nothing judged yet."""
        self._judged = [0.0] * LONGEST
        self._kept = [0.0] * LONGEST

    def observe(self, round_: Round) -> None:
        """Count the tokens that were kept and the first that was not."""
        # An answer may end in an accepted token, and then nothing after it was rejected.
        rejected = len(round_.tokens) > round_.accepted
        for place in range(min(round_.accepted + rejected, round_.depth)):
            self._judged[place] = MEMORY * self._judged[place] + 1
            self._kept[place] = MEMORY * self._kept[place] + (place < round_.accepted)

    def expected(self) -> list[float]:
        """[LONGEST + 1] E(k); places seldom reached lean on all places together."""
        pooled = (sum(self._kept) + 2 * PRIOR) / (sum(self._judged) + 2)
        tokens, chance = [1.0], 1.0
        for judged, kept in zip(self._judged, self._kept, strict=True):
            chance *= (kept + 2 * pooled) / (judged + 2)
            tokens.append(tokens[-1] + chance)
        return tokens


class RoundCosts:
    """Seconds of a round by the tokens it drafted: running medians, straight lines between."""

    def __init__(self) -> None:
        """Nothing measured yet."""
        self._seconds: dict[int, deque[float]] = {}
        self._medians: dict[int, float] = {}
        self._told: dict[int, float] = {}

    @property
    def tried(self) -> list[int]:
        """The lengths measured, ascending."""
        return sorted(self._medians)

    def count(self, k: int) -> int:
        """The rounds of k that its cost rests on."""
        return len(self._seconds.get(k, ())) + (k in self._told)

    def is_shown(self, k: int) -> bool:
        """Whether more than one round of k has shown its cost, in this session or before."""
        return k in self._told or self.count(k) >= TWICE

    def observe(self, k: int, seconds: float, *, late: bool) -> None:
        """Take one round in; a late one, which also caught up, shows no more than a bound."""
        if late and k in self._medians and seconds > self._medians[k]:
            return
        kept = self._seconds.setdefault(k, deque(maxlen=SAMPLES))
        kept.append(max(seconds, 1e-9))
        if k in self._told and len(kept) >= TWICE:
            self._question(self._told[k], median_low(kept))
        self._medians[k] = median_low([*kept, *([self._told[k]] if k in self._told else [])])

    def tell(self, told: Mapping[int, float]) -> None:
        """Count what is known from before as one round of each length, which was not warming up."""
        self._told = dict(told)
        self._medians = self._medians | self._told

    def _question(self, told: float, measured: float) -> None:
        """Forget all that was told where one cost turns out far from it: others will too."""
        if not told / FAR < measured < FAR * told:
            self._told = {}
            self._medians = {k: median_low(kept) for k, kept in self._seconds.items()}

    def seconds(self, k: int) -> float:
        """c(k): measured, or on the line through the nearest lengths that were."""
        if k in self._medians:
            return self._medians[k]
        tried = self.tried
        below = [each for each in tried if each < k]
        above = [each for each in tried if each > k]
        if not above and len(below) == 1:
            return self._medians[below[0]] * (1 + k - below[0])  # as dear as plain decoding
        low, high = (below[-1], above[0]) if above else below[-2:]
        slope = (self._medians[high] - self._medians[low]) / (high - low)
        return self._medians[low] + max(slope, 0.0) * (k - low)

    def presumed(self, k: int) -> float:
        """c(k) for the account: a first round far too dear was warming up, and says nothing."""
        seconds, plain = self.seconds(k), self._medians[0] * (1 + k)
        first = self.count(k) == 1 and k not in self._told
        return plain if first and seconds > 2 * plain else seconds

    def least(self, k: int) -> float:
        """What a round of k costs at the very least: as much as a proven one of no more."""
        if self.count(k) >= PROVEN:
            return self._medians[k]
        shorter = [each for each in self.tried if each < k and self.count(each) >= PROVEN]
        return self._medians[shorter[-1] if shorter else 0]


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
        costs = self._costs
        return {k: costs.seconds(k) for k in costs.tried if costs.is_shown(k)}

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
        lengths = {*self._costs.tried, self._longer} - {self._best}
        able = [k for k in lengths if not k or self._expected[k] / self._costs.least(k) > bar]
        able = able or [max(lengths, key=self._rate)]
        borne = [k for k in able if self._affordable(k)] or [0]
        return min(borne, key=lambda k: (self._tried_at.get(k, 0), -self._rate(k)))

    def _affordable(self, k: int) -> bool:
        """Whether the account bears what a round of k may lose against plain decoding."""
        step = self._costs.seconds(0)
        risk = max(self._costs.presumed(k) - self._expected[k] * step, 0.0) if k else 0.0
        lost = self._account.lost(self._costs)
        return not k or lost + risk <= (ALLOWANCE + SHARE * self._account.tokens) * step

    def _schedule(self, round_: Round, *, changed: bool) -> None:
        if changed:
            self._wait = self._due = SOONEST
        elif not self._trying:
            self._due -= 1
        elif not self._best and round_.accepted:
            self._due = 0  # more of this may change the verdict: go on trying
        elif round_.drafted or self._best:
            self._wait = min(2 * self._wait, LATEST)
            self._due = self._wait
        self._trying = False  # a round may follow whose length another chose


class Account:
    """What drafting has lost against plain decoding, at today's estimate of the costs.

    Older rounds fade, so that neither an old gain pays for a new loss nor an old loss forbids
    drafting for ever.
    """

    def __init__(self) -> None:
        """Nothing spent."""
        self.tokens = 0.0
        """All tokens decoded."""
        self._rounds = [0.0] * (LONGEST + 1)
        self._drafted_tokens = 0.0
        self._extra = 0.0

    def observe(self, round_: Round, extra: float) -> None:
        """Enter a round; `extra` seconds come on top of what its length costs."""
        self._rounds = [FADE * rounds for rounds in self._rounds]
        self._rounds[round_.depth] += 1
        self.tokens = FADE * self.tokens + len(round_.tokens)
        self._extra = FADE * self._extra + max(extra, 0.0)
        gained = len(round_.tokens) if round_.drafted else 0
        self._drafted_tokens = FADE * self._drafted_tokens + gained

    def lost(self, costs: RoundCosts) -> float:
        """Seconds; negative where drafting has won."""
        spent = sum(n * costs.presumed(k) for k, n in enumerate(self._rounds) if k and n)
        return spent + self._extra - self._drafted_tokens * costs.seconds(0)
