"""Measures the costs of rounds by context, from which adaptive draft lengths start.

The context is one token repeated: costs do not depend on which.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

Costs = dict[tuple[str, int, int], float]
"""Seconds by the name of a `Calibration`'s curve, the context, and rows or branches."""


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
    """Time sequences at their context."""
    context, more = target.length, MAX_AUTO_GAMMA - 1
    forwards, tokens = steps_beside(engine, target, drafters, ROWS, MAX_AUTO_GAMMA, repeats)
    costs = {("target", context, rows): each for rows, each in zip(ROWS, forwards, strict=True)}
    _, firsts = steps_beside(engine, target, drafters, (), 1, repeats)
    for branches, (token, first) in enumerate(zip(tokens, firsts, strict=True), start=1):
        costs["first", context, branches] = first
        costs["draft", context, branches] = max(MAX_AUTO_GAMMA * token - first, token) / more
    for branches, opened in enumerate(() if engine.recurrent else drafters, start=1):
        costs["level", context, branches] = _level_seconds(engine, target, opened, repeats)
    return costs


def _joined(first: Costs, second: Costs, share: float | None) -> Measured:
    """The means of two measurements, and how well they agree."""
    pairs = {key: (seconds, second[key]) for key, seconds in first.items()}
    curves: dict[str, dict[int, dict[int, float]]] = {}
    for (curve, context, number), pair in pairs.items():
        curves.setdefault(curve, {}).setdefault(context, {})[number] = mean(pair)
    return Measured(Calibration(**curves), Steadiness(share, usual_ratio(pairs.values())))


def _level_seconds(engine: Engine, target: Target, opened: OpenDrafter, repeats: int) -> float:
    """Median seconds of a level of a tree, after two rounds of its own."""

    def tree() -> Draft | None:
        return opened.drafter.draft(Plan(LEVELS), NO_NOISE)

    def once() -> float:
        for _ in range(2):
            target.verify(tree(), NO_NOISE)
        return seconds_of(engine, tree)

    draft = tree()
    return median(once() for _ in range(repeats)) / (draft.depth if draft else LEVELS)


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


def steps_beside(
    engine: Engine,
    target: Target,
    drafters: Sequence[OpenDrafter],
    rows: Sequence[int],
    gamma: int,
    repeats: int,
) -> tuple[list[float], list[float]]:
    """Median seconds of a target forward over each of `rows`, and of a drafted token by drafter.

    Drafts and forwards alternate, and a draft is timed after two rounds of its own, so that the
    processor's caches are in the state of an answer.  A draft has `gamma` tokens; its seconds are
    divided by their number.  Without drafters the rows hold arbitrary tokens.
    """
    lengths = [draft.size if (draft := draft_once(opened, gamma)) else gamma for opened in drafters]

    def forward_seconds(count: int) -> float:
        drafts = drafters and 1 < count <= gamma + 1
        draft = draft_once(drafters[0], count - 1) if drafts else None
        if (draft.size if draft else 0) < count - 1:  # as of a head, which may draft fewer tokens
            draft = HostDraft([0] * (count - 1))
        return seconds_of(engine, lambda: target.verify(draft, NO_NOISE))

    def draft_seconds(drafter: OpenDrafter) -> float:
        for _ in range(2):
            target.verify(draft_once(drafter, gamma), NO_NOISE)
        return seconds_of(engine, lambda: draft_once(drafter, gamma))

    def once() -> list[float]:
        forwards, drafts = [], []
        for count, drafter in zip_longest(rows, drafters):
            forwards += [forward_seconds(count)] if count else []
            drafts += [draft_seconds(drafter)] if drafter else []
        return forwards + drafts

    once()  # warms up
    passes = [once() for _ in range(repeats)]
    seconds = [median(column) for column in zip(*passes, strict=True)]
    drafts = zip(seconds[len(rows) :], lengths, strict=True)
    return seconds[: len(rows)], [whole / length for whole, length in drafts]


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
