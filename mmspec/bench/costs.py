"""What the parts of a round cost, measured one by one at the seam."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean, median
from time import perf_counter

from mmspec.bench.prompts import Prompt
from mmspec.draft import Draft, HostDraft
from mmspec.engine import Engine
from mmspec.errors import UsageError
from mmspec.options import Options
from mmspec.replay import opened, rendered
from mmspec.seam import Target
from mmspec.session import DraftSide
from mmspec.sides import drafting_for, open_side


@dataclass(frozen=True, slots=True)
class Costs:
    """Median seconds, everything enqueued before being done when the clock starts.

    A drafted token and a target forward each include their head and the choice of the token.
    """

    gamma: int
    target_step: float
    """A target forward over 1 row: plain decoding's round."""
    target_block: float
    """A target forward over gamma + 1 rows."""
    draft_step: dict[str, float]
    """Per drafted token of a draft of gamma, by drafting; one letter is one branch."""

    @property
    def ratios(self) -> dict[str, float]:
        """The ratios that decide what speculation gains."""
        one, many = min(self.draft_step, key=len), max(self.draft_step, key=len)
        found = {"target step / draft step": self.target_step / self.draft_step[one]}
        if many != one:
            ratio = self.draft_step[many] / self.draft_step[one]
            found[f"{len(many)} branches / {len(one)}"] = ratio
        return found | {f"{self.gamma + 1} target rows / 1": self.target_block / self.target_step}


@dataclass(frozen=True, slots=True)
class Passes:
    """How often what is timed together is timed, and what is made of it."""

    repeats: int
    """At least; a first pass is not counted."""
    seconds: float = 0.0
    """Passes go on until these are over."""
    centre: Callable[[Sequence[float]], float] = median

    def time(self, once: Callable[[], Sequence[float]]) -> list[float]:
        """The centre of each of the things that every pass measures."""
        once()
        passes: list[Sequence[float]] = []
        end = perf_counter() + self.seconds
        while len(passes) < self.repeats or perf_counter() < end:
            passes.append(once())
        return [self.centre(column) for column in zip(*passes, strict=True)]


def middle_mean(values: Sequence[float]) -> float:
    """The mean without the lowest and the highest eighth.

    Sums follow means; where other work takes turns with a short call, its median is one of two
    extremes.  A single disturbance is left out as in a median.
    """
    cut = len(values) // 8
    return fmean(sorted(values)[cut : len(values) - cut])


def costs(engine: Engine, prompt: Prompt, options: Options, repeats: int = 20) -> Costs:
    """Time one and, where the draft model sees images, four branches, and one and gamma + 1 rows.

    Nothing is committed: every call starts from the same prompt.
    """
    gamma = options.longest_draft
    words = ["M", "MTCP"] if prompt.message.pictures and _draft_sees(engine) else ["T"]
    (step, block), drafted = steps(engine, prompt, (1, gamma + 1), words, Passes(repeats))
    return Costs(gamma, step, block, dict(zip(words, drafted, strict=True)))


def steps(
    engine: Engine,
    prompt: Prompt,
    rows: Sequence[int],
    words: Sequence[str],
    passes: Passes,
) -> tuple[list[float], list[float]]:
    """Seconds of a target forward over each of `rows`, and of a drafted token by word.

    Drafts and forwards alternate, and a draft is timed after two rounds of its own: what others
    leave in the caches of the processor is not what it finds in an answer.  A draft is as long as
    the most rows leave it; its cost is divided by its tokens.  Without words rows hold any tokens.
    """
    target, gamma = opened(engine, prompt.message), max(rows) - 1
    sides = [side_beside(engine, prompt, Options(drafting=word), target) for word in words]
    lengths = [draft.size if (draft := drafted(side, gamma)) else gamma for side in sides]

    def verifying(count: int) -> float:
        draft = drafted(sides[0], count - 1) if sides and count > 1 else None
        if (draft.size if draft else 0) < count - 1:  # a head has only so many places
            draft = HostDraft([0] * (count - 1))
        return timed(engine, lambda: target.verify(draft, ()))

    def drafting(side: DraftSide) -> float:
        for _ in range(2):
            target.verify(drafted(side, gamma), ())
        return timed(engine, lambda: drafted(side, gamma))

    def once() -> list[float]:
        forwards, drafts = [], []
        for count, side in zip_longest(rows, sides):
            forwards += [verifying(count)] if count else []
            drafts += [drafting(side)] if side else []
        return forwards + drafts

    found = passes.time(once)
    pairs = zip(found[len(rows) :], lengths, strict=True)
    return found[: len(rows)], [whole / length for whole, length in pairs]


def tree_costs(
    engine: Engine, prompt: Prompt, options: Options, passes: Passes
) -> tuple[float, float]:
    """Seconds of a drafted level of `options.tree`, and of verifying the whole tree."""
    target = opened(engine, prompt.message)
    side = side_beside(engine, prompt, options, target)
    gamma = options.longest_draft
    grown = drafted(side, gamma)
    assert grown is not None  # a side that drafts nothing is refused

    def once() -> list[float]:
        draft = drafted(side, gamma)
        verify = timed(engine, lambda: target.verify(draft, ()))
        return [timed(engine, lambda: drafted(side, gamma)), verify]

    draft, verify = passes.time(once)
    return draft / grown.depth, verify


def drafted(side: DraftSide, count: int) -> Draft | None:
    """What a side drafts from where it stands, at its own weights."""
    return side.drafter.draft(count, side.drafting.weights, ())


def branch_words(engine: Engine) -> list[str]:
    """One drafting for every number of branches that can be had: M, MT, MTC, MTCP with all."""
    if engine.head:
        return [engine.head.kind]
    if engine.draft is None:
        return []
    sees = _draft_sees(engine)
    letters = [
        letter
        for letter, can in zip("MTCP", (sees, True, engine.captioner, sees), strict=True)
        if can
    ]
    return ["".join(letters[: count + 1]) for count in range(len(letters))]


def _draft_sees(engine: Engine) -> bool:
    return engine.draft is not None and engine.draft.model.config.vision is not None


def side_beside(engine: Engine, prompt: Prompt, options: Options, target: Target) -> DraftSide:
    """A side that drafts as asked beside `target`, which holds the prompt, at its end too."""
    side = open_side(engine, options, drafting_for(engine, options, ()), target)
    if side is None:
        raise UsageError(f"{options.drafting} drafts nothing whose cost could be measured")
    side.prefill(rendered(engine, prompt.message))
    return side


def timed(engine: Engine, call: Callable[[], object]) -> float:
    """Seconds of a call, from all being done before it to all that it enqueued being done."""
    engine.backend.synchronize()
    started = perf_counter()
    call()
    engine.backend.synchronize()
    return perf_counter() - started
