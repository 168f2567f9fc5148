"""Measures the costs of rounds by context, from which adaptive draft lengths start.

The context is one token repeated: costs do not depend on which.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from statistics import mean, median
from time import perf_counter

from mmspec.chat.draft_selection import drafting_for, open_drafter
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import OpenDrafter
from mmspec.decoding.contract import Segment, Target
from mmspec.decoding.draft import Draft, HostDraft, Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.calibration_file import CONTEXTS, ROWS, Calibration
from mmspec.ground.progress import Notice, Progress
from mmspec_bench.measure.steadiness import (
    REMEDY,
    Clock,
    Steadiness,
    share_between,
    stopwatch,
    usual_ratio,
)

TOKEN = 5
"""Id of the repeated token, which is not a special one in a Llama vocabulary."""
ROOM = max(ROWS)
"""Positions that must be free after a context, for the largest forward."""
LEVELS = 5
"""Number of levels of the tree whose drafting is timed."""
SECONDS, TIMES = 2.0, 4
"""Seconds for which short rounds go on being repeated, up to TIMES as often."""

Key = tuple[str, int, int]
"""The name of a `Calibration`'s curve, the context, and rows or branches."""
Costs = dict[Key, float]
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A calibration, and whether other programs disturbed it."""

    calibration: Calibration
    steadiness: Steadiness

    @property
    def problem(self) -> str:
        """Why it should not be used, and what to do; '' if nothing speaks against it."""
        if self.steadiness.problem or self.calibration.is_plausible:
            return self.steadiness.problem
        return f"several rows took less than a single one: {REMEDY}"


def calibrate(
    engine: Engine,
    progress: Progress,
    repeats: int = 4,
    clock: Clock = stopwatch,
    *,
    exact: str = "auto",
) -> Measured:
    """Time target forwards over each of ROWS, drafted tokens and levels with 1 to all branches.

    They are timed at each of CONTEXTS for which the models have positions; in place of a first one
    that exceeds the target's positions, at the longest that leaves room for every forward. All is
    timed twice, to see whether other programs disturb: `repeats` times each, and up to TIMES as
    often where forwards are short, because a few percent between two lengths decide.  It ends after
    the first context at which they did.

    exact: a mode of `--exact`; the target's forwards have the rows that it gives.
    """
    rows, started = engine.exact_rows(exact), clock()
    target = engine.target.model.open_target(GREEDY, rows)
    drafters = [_opened(engine, spec, target) for spec in branch_draftings(engine)]
    both: tuple[Costs, Costs] = {}, {}
    positions = engine.target.model.config.text.max_position_embeddings
    for context in sorted({min(context, positions - ROOM) for context in CONTEXTS}):
        progress(Notice(f"measuring after {context} tokens"))  # takes minutes, also in a pipe
        target.extend(Segment([[TOKEN] * (context - target.length)]))
        drafters = [drafter for drafter in drafters if _extended(drafter, context)]
        times = _repetitions(engine, target, drafters, repeats)
        for each in both:
            each.update(_measured_once(engine, target, drafters, times))
        on_cpu = engine.target.model.device == "cpu"
        measured = _joined(*both, share_between(started, clock()) if on_cpu else None)
        if measured.problem:
            break
    return measured


def _measured_once(
    engine: Engine, target: Target, drafters: Sequence[OpenDrafter], repeats: int
) -> Costs:
    """Time sequences at their context, after a pass that warms up.

    Drafts and forwards alternate, so that the processor's caches are in the state of an answer.
    """
    context, more = target.length, MAX_AUTO_GAMMA - 1
    forwards: dict[Key, Callable[[], float]] = {
        ("target", context, rows): partial(_forward_seconds, engine, target, drafters, rows)
        for rows in ROWS
    }
    drafts: dict[Key, Callable[[], float]] = {}
    for branches, opened in enumerate(drafters, start=1):
        kinds: dict[str, Callable[[], Draft | None]] = {
            "draft": partial(draft_once, opened, MAX_AUTO_GAMMA),
            "first": partial(draft_once, opened, 1),
        }
        if not engine.recurrent:
            kinds["level"] = partial(opened.drafter.draft, Plan(LEVELS), NO_NOISE)
        for curve, draft in kinds.items():
            drafts[curve, context, branches] = partial(_draft_seconds, engine, target, draft)
    pairs = zip_longest(forwards.items(), drafts.items())
    alternating = dict(each for pair in pairs for each in pair if each)
    passes = [{key: timed() for key, timed in alternating.items()} for _ in range(1 + repeats)]
    costs = {key: median(each[key] for each in passes[1:]) for key in alternating}
    for branches in range(1, 1 + len(drafters)):
        token, first = costs["draft", context, branches], costs["first", context, branches]
        costs["draft", context, branches] = max(MAX_AUTO_GAMMA * token - first, token) / more
    return costs


def _forward_seconds(
    engine: Engine, target: Target, drafters: Sequence[OpenDrafter], rows: int
) -> float:
    """Seconds of a target forward over the last token and a draft, else arbitrary tokens."""
    drafts = drafters and 1 < rows <= MAX_AUTO_GAMMA + 1
    draft = draft_once(drafters[0], rows - 1) if drafts else None
    if (draft.size if draft else 0) < rows - 1:  # as of a head, which may draft fewer tokens
        draft = HostDraft([0] * (rows - 1))
    return seconds_of(engine, lambda: target.verify(draft, NO_NOISE))


def _draft_seconds(engine: Engine, target: Target, draft: Callable[[], Draft | None]) -> float:
    """Seconds of a level of a draft, of a chain those of a token, after two rounds of its own."""
    for _ in range(2):
        latest = draft()
        target.verify(latest, NO_NOISE)
    return seconds_of(engine, draft) / (latest.depth if latest else 1)


def _joined(first: Costs, second: Costs, share: float | None) -> Measured:
    """The means of two measurements, and how well they agree."""
    pairs = {key: (seconds, second[key]) for key, seconds in first.items()}
    curves: dict[str, dict[int, dict[int, float]]] = {}
    for (curve, context, number), pair in pairs.items():
        curves.setdefault(curve, {}).setdefault(context, {})[number] = mean(pair)
    return Measured(Calibration(**curves), Steadiness(share, usual_ratio(pairs.values())))


def _repetitions(
    engine: Engine, target: Target, drafters: Sequence[OpenDrafter], least: int
) -> int:
    """How often to time each forward, so that all numbers of rows together take SECONDS."""

    def once() -> None:
        draft = draft_once(drafters[-1], MAX_AUTO_GAMMA) if drafters else None
        target.verify(draft, NO_NOISE)

    seconds = median(seconds_of(engine, once) for _ in range(3)) * len(ROWS)
    return max(least, min(TIMES * least, int(SECONDS / seconds)))


def _opened(engine: Engine, spec: str, target: Target) -> OpenDrafter:
    options = Options(drafting=spec, tree=None if engine.recurrent else Tree())
    return open_drafter(engine, options, drafting_for(engine, options), target)


def _extended(opened: OpenDrafter, context: int) -> bool:
    """Extend to `context` tokens; False if the draft has no room for more there."""
    segment = Segment([[TOKEN] * (context - opened.drafter.length)])
    opened.drafter.extend([segment] * len(opened.drafting.branches))
    return draft_once(opened, MAX_AUTO_GAMMA) is not None


def draft_once(drafter: OpenDrafter, count: int) -> Draft | None:
    """A chain of `count` tokens at the drafter's current position; None if there is no room."""
    return drafter.drafter.draft(Plan(count, nodes=count), NO_NOISE)


def branch_draftings(engine: Engine) -> list[str]:
    """One drafting for each possible number of branches: M, MT, MTC, MTCP."""
    if engine.head:
        return [engine.head.kind]
    if engine.draft is None:
        return []
    sees = engine.draft.model.config.vision is not None
    able = {"M": sees, "T": True, "C": engine.captioner, "P": sees}
    letters = [letter for letter, can in able.items() if can]
    most = 1 if engine.draft.model.config.text.delta_net else len(letters)
    return ["".join(letters[: count + 1]) for count in range(most)]


def seconds_of(engine: Engine, call: Callable[[], object]) -> float:
    """Seconds of a call and all work that it enqueues, after earlier work is done."""
    engine.backend.synchronize()
    started = perf_counter()
    call()
    engine.backend.synchronize()
    return perf_counter() - started
