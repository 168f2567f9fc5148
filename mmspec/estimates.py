"""What rounds have kept and cost so far: acceptance by place, seconds by length, an account.

Shape letters: k drafted tokens of a chain, levels of a tree.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
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
FADE = 0.998
"""What a round still counts in the account after the next one."""


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

    @property
    def shown(self) -> dict[int, float]:
        """Seconds by length, of those that more than one round has shown, or that were told."""
        lengths = (k for k in self.tried if k in self._told or self.count(k) >= TWICE)
        return {k: self.seconds(k) for k in lengths}

    def observe(self, k: int, seconds: float, *, late: bool) -> None:
        """Take one round in; a late one, which also caught up, shows no more than a bound."""
        bound = self._medians.get(k, 0.0 if self._told else math.inf)
        if late and seconds > bound:
            return
        kept = self._seconds.setdefault(k, deque(maxlen=SAMPLES))
        kept.append(max(seconds, 1e-9))
        if self._told and len(kept) >= TWICE and k:
            self._question(self._told_of(k), median_low(kept))
        self._medians[k] = median_low([*kept, *([self._told[k]] if k in self._told else [])])

    def tell(self, told: Mapping[int, float]) -> None:
        """Count what is known from before as one round of each length, which was not warming up."""
        self._told = dict(told)
        self._medians = self._medians | self._told

    def is_hearsay(self, k: int) -> bool:
        """Whether what is known of k was told alone, or follows from that."""
        return bool(self._told) and not self._seconds.get(k)

    def is_in_question(self, k: int) -> bool:
        """Whether what was told is being put to the test by rounds of k."""
        return bool(self._told) and k > 0 and len(self._seconds.get(k, ())) < TWICE

    def _told_of(self, k: int) -> float:
        """What was told of k, or stands on a line from a plain round to the next length told."""
        longer = min((each for each in self._told if each >= k), default=max(self._told))
        plain = self._medians[0]
        return plain + (self._told[longer] - plain) * k / longer

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
        """c(k) for the account: a first round far too dear was warming up, and says nothing.

        What was only told counts as no dearer than plain decoding.
        """
        seconds, plain = self.seconds(k), self._medians[0] * (1 + k)
        if self.is_hearsay(k):
            return min(seconds, plain)
        first = self.count(k) == 1 and k not in self._told
        return plain if first and seconds > 2 * plain else seconds

    def least(self, k: int) -> float:
        """What a round of k costs at the very least: as much as a proven one of no more."""
        if self.count(k) >= PROVEN:
            return self._medians[k]
        shorter = [each for each in self.tried if each < k and self.count(each) >= PROVEN]
        return self._medians[shorter[-1] if shorter else 0]


def shown_by(rounds: Iterable[Round]) -> dict[int, float]:
    """Seconds by length, up to LONGEST, of those that more than one of the rounds has shown."""
    costs = RoundCosts()
    for round_ in rounds:
        if round_.depth <= LONGEST:
            costs.observe(round_.depth, round_.draft_seconds + round_.verify_seconds, late=False)
    return costs.shown


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
