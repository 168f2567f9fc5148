"""What the parts of a round cost, measured one by one at the seam."""

import cProfile
import inspect
import pstats
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from mmspec import loop
from mmspec.bench.prompts import Prompt
from mmspec.chat import Chat, Piece
from mmspec.draft import Draft, HostDraft
from mmspec.engine import Engine
from mmspec.errors import UsageError
from mmspec.options import Gamma, Options
from mmspec.replay import opened, rendered
from mmspec.seam import Target
from mmspec.session import DraftSide
from mmspec.sides import drafting_for, open_side

FORWARDS = ("llama.py", "host.py")
"""Files of a backend that run the decoder, or wait for what it computed."""


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
        return {
            "target step / draft step": self.target_step / self.draft_step[one],
            f"{len(many)} branches / {len(one)}": self.draft_step[many] / self.draft_step[one],
            f"{self.gamma + 1} target rows / 1": self.target_block / self.target_step,
        }


@dataclass(frozen=True, slots=True)
class HostShare:
    """How much of a round is host work outside model forwards.

    `of_loop` is the loop's part, with commits: a round's time outside `draft` and `verify`.
    `of_round` is all of it: a round's time outside the backend's decoder forwards and its wait for
    their result, by a profiler of Python calls in a run of its own, whose overhead is counted in.
    None where the device runs on while the host works, for then the two overlap.
    """

    drafting: str
    gamma: Gamma
    of_loop: float
    of_round: float | None


def costs(engine: Engine, prompt: Prompt, options: Options, repeats: int = 20) -> Costs:
    """Time one and, where the draft sees images, four branches, and one and gamma + 1 rows.

    Nothing is committed: every call starts from the same prompt.
    """
    gamma, words = options.longest_draft, ["T"]
    if engine.head:
        words = [engine.head.kind]
    elif prompt.message.pictures and _draft_sees(engine):
        words = ["M", "MTCP"]
    (step, block), drafted = steps(engine, prompt, (1, gamma + 1), words, repeats)
    return Costs(gamma, step, block, dict(zip(words, drafted, strict=True)))


def steps(
    engine: Engine, prompt: Prompt, rows: Sequence[int], words: Sequence[str], repeats: int
) -> tuple[list[float], list[float]]:
    """Median seconds of a target forward over each of `rows`, and of a drafted token by word.

    The parts alternate; a first pass is not counted.  A draft is as long as the most rows leave
    it; its cost is divided by its tokens.  Without words rows hold any tokens.
    """
    target, gamma = opened(engine, prompt.message), max(rows) - 1
    sides = [side_beside(engine, prompt, word, target) for word in words]
    lengths = [draft.size if (draft := drafted(side, gamma)) else gamma for side in sides]

    def verifying(count: int) -> float:
        draft = drafted(sides[0], count - 1) if sides and count > 1 else None
        if (draft.size if draft else 0) < count - 1:  # a head has only so many places
            draft = HostDraft([0] * (count - 1))
        return timed(engine, lambda: target.verify(draft, ()))

    def drafting(side: DraftSide) -> float:
        return timed(engine, lambda: drafted(side, gamma))

    passes = [
        [*(verifying(count) for count in rows), *(drafting(side) for side in sides)]
        for _ in range(repeats + 1)
    ]
    medians = [median(column) for column in zip(*passes[1:], strict=True)]
    pairs = zip(medians[len(rows) :], lengths, strict=True)
    return medians[: len(rows)], [seconds / length for seconds, length in pairs]


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


def side_beside(engine: Engine, prompt: Prompt, word: str, target: Target) -> DraftSide:
    """A side that drafts by `word` beside `target`, which holds the prompt, at its end too."""
    options = Options(drafting=word)
    side = open_side(engine, options, drafting_for(engine, options, ()), target)
    if side is None:
        raise UsageError(f"{word} drafts nothing whose cost could be measured")
    side.prefill(rendered(engine, prompt.message))
    return side


def timed(engine: Engine, call: Callable[[], object]) -> float:
    """Seconds of a call, from all being done before it to all that it enqueued being done."""
    engine.backend.synchronize()
    started = perf_counter()
    call()
    engine.backend.synchronize()
    return perf_counter() - started


def host_share(engine: Engine, prompts: Sequence[Prompt], options: Options) -> HostShare:
    """Measure the host work of answers, without and then with the profiler: medians of prompts."""
    chats = [_answered(engine, prompt, options) for prompt in prompts]
    seconds = [chat.answer.statistics.seconds for chat in chats]
    of_loop = median(1 - (each["draft"] + each["verify"]) / each["decode"] for each in seconds)
    synchronous = engine.target.model.device == "cpu"
    shares = [_profiled(engine, prompt, options) for prompt in prompts if synchronous]
    of_round = median(shares) if shares else None
    return HostShare(chats[0].answer.drafting.word, options.gamma, of_loop, of_round)


def _answered(engine: Engine, prompt: Prompt, options: Options) -> Chat:
    chat = engine.chat(options)
    for _ in chat.send(prompt.message):
        pass
    return chat


def _profiled(engine: Engine, prompt: Prompt, options: Options) -> float:
    stream = engine.chat(options).send(prompt.message)
    while not isinstance(next(stream), Piece):
        pass
    # Only Python's own calls: time in a framework's functions belongs to their caller.
    profile = cProfile.Profile(builtins=False)
    with profile:
        for _ in stream:
            pass
    return outside_forwards(pstats.Stats(profile), Path(inspect.getfile(type(engine.backend))))


def outside_forwards(stats: pstats.Stats, backend: Path) -> float:
    """The share of the loop's time not spent in calls into the files that run forwards.

    backend: the file of the backend, whose folder the forwards' files lie in.
    """
    forwards = {str(backend.with_name(name)) for name in FORWARDS}
    round_seconds = inside = 0.0
    for (file, _, name), (*_, seconds, callers) in stats.stats.items():  # type: ignore[attr-defined]
        if (file, name) == (loop.__file__, loop.decode.__name__):
            round_seconds += seconds
        if file in forwards:
            outside = (timing for caller, timing in callers.items() if caller[0] not in forwards)
            inside += sum(timing[3] for timing in outside)
    return 1 - inside / round_seconds
