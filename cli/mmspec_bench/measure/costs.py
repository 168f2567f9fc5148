"""Measures the costs of the parts of a round at the seam."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from statistics import median
from time import perf_counter

from mmspec.chat.engine import Engine
from mmspec.chat.session import OpenDrafter
from mmspec.decoding.contract import Target
from mmspec.decoding.draft import Draft, HostDraft, Plan
from mmspec.decoding.noise import NO_NOISE


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
    sees = draft_sees(engine)
    able = {"M": sees, "T": True, "C": engine.captioner, "P": sees}
    letters = [letter for letter, can in able.items() if can]
    return ["".join(letters[: count + 1]) for count in range(len(letters))]


def draft_sees(engine: Engine) -> bool:
    """True if the draft is a model that sees images."""
    return engine.draft is not None and engine.draft.model.config.vision is not None


def seconds_of(engine: Engine, call: Callable[[], object]) -> float:
    """Seconds of a call and all work that it enqueues, after earlier work is done."""
    engine.backend.synchronize()
    started = perf_counter()
    call()
    engine.backend.synchronize()
    return perf_counter() - started


def median_seconds(engine: Engine, call: Callable[[], object], repeats: int) -> float:
    """The median of `seconds_of` over `repeats` calls."""
    return median(seconds_of(engine, call) for _ in range(repeats))
