"""Rounds of which a script, and not the models, decides how many drafted tokens are kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import mean, median
from time import perf_counter

from mmspec.bench.costs import drafted, side_beside, timed
from mmspec.bench.prompts import Prompt
from mmspec.draft import Draft, Verdict
from mmspec.drafting import PLAIN, StaticWeights
from mmspec.engine import Engine
from mmspec.loop import decode
from mmspec.options import Options
from mmspec.replay import opened
from mmspec.seam import Float32, Segment, Target
from mmspec.session import DraftSide

WARM = 8
"""Rounds that are not counted."""
COUNTED = 50
REPEATS = 9
QUEUED = 4
"""Drafts that a device has before it when what it needs for one is measured."""


@dataclass(frozen=True, slots=True)
class Imposed:
    """What rounds cost, acceptance imposed: tokens per second are nobody's answers."""

    drafting: str
    tokens_per_round: float
    """As imposed; 1 for plain decoding."""
    round: float
    """Median seconds of a round in the loop."""
    tokens_per_second: float
    """The mean tokens of a round over its median seconds."""
    device: float | None = None
    """Median seconds that its draft and verification take, enqueued behind others; None on a CPU,
    and for plain decoding, which has nothing to enqueue them behind."""

    @property
    def waiting(self) -> float | None:
        """The share of a round in which a device of its own waits for the host."""
        return None if self.device is None else 1 - self.device / self.round


class ImposedTarget:
    """Implements `mmspec.seam.Target`: another one's sequence, with acceptance by a script."""

    def __init__(self, target: Target, tokens_per_round: float) -> None:
        """Keep as many drafted tokens a round as come to `tokens_per_round` with the target's."""
        self._target, self._kept = target, kept(tokens_per_round)

    @property
    def length(self) -> int:
        """Of the sequence."""
        return self._target.length

    def extend(self, segment: Segment) -> None:
        """Append a segment."""
        self._target.extend(segment)

    def rewind(self, length: int) -> None:
        """Forget tokens."""
        self._target.rewind(length)

    def verify(self, draft: Draft | None, draws: Sequence[float]) -> Verdict:
        """Verify a chain, and answer with the script's acceptance."""
        verdict = self._target.verify(draft, draws)
        if draft is None:
            return verdict
        count = min(next(self._kept), draft.size)
        return replace(verdict, accept=[1.0] * count + [0.0] * (draft.size - count))

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append what was kept."""
        self._target.commit(path, token)

    def logits(self) -> Float32:
        """Next-token logits."""
        return self._target.logits()


def kept(tokens_per_round: float) -> Iterator[int]:
    """Drafted tokens to keep round by round, spread evenly: their mean is one less than given."""
    owed = 0.0
    while True:
        owed += tokens_per_round - 1
        yield int(owed)
        owed -= int(owed)


def impose(
    engine: Engine, prompt: Prompt, word: str, gamma: int, tokens_per_round: float
) -> Imposed:
    """Time rounds after a prompt, drafting by `word` and with the given tokens per round."""
    target = opened(engine, prompt.message)
    options = Options(drafting=word)
    side = None if word == PLAIN.word else side_beside(engine, prompt, options, target)
    rounds = list(_rounds(ImposedTarget(target, tokens_per_round), side, gamma))[WARM:]
    tokens = mean(count for count, _ in rounds)
    device = _device(engine, target, side, gamma) if side else None
    middle = median(spent for _, spent in rounds)
    return Imposed(word, tokens_per_round, middle, tokens / middle, device)


def _rounds(target: Target, side: DraftSide | None, gamma: int) -> Iterator[tuple[int, float]]:
    """Tokens and seconds of each round."""
    count = WARM + COUNTED
    rounds = decode(
        target,
        side.drafter if side else None,
        StaticWeights(side.drafting, side.positions) if side else None,
        gamma=gamma,
        max_tokens=(count + 1) * (gamma + 1),
    )
    started = perf_counter()
    for round_ in islice(rounds, count):
        ended = perf_counter()
        yield len(round_.tokens), ended - started
        started = perf_counter()


def _device(engine: Engine, target: Target, side: DraftSide, gamma: int) -> float | None:
    """Median seconds that a round's forwards take, its verification enqueued behind drafts.

    Where a device runs on its own, the host's part is hidden behind what is queued; on a CPU both
    are one, and None is said.
    """
    if engine.target.model.device == "cpu":
        return None

    def queue() -> Draft | None:
        return [drafted(side, gamma) for _ in range(QUEUED)][-1]

    def once() -> float:
        alone = timed(engine, queue)
        return alone / QUEUED + timed(engine, lambda: target.verify(queue(), ())) - alone

    return median(once() for _ in range(REPEATS))
