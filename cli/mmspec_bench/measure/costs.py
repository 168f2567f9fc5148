"""Measures the costs of the parts of a round at the seam."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median
from time import perf_counter

from mmspec.chat.draft_selection import drafting_for, open_drafter
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import OpenDrafter
from mmspec.decoding.contract import Target
from mmspec.decoding.draft import Draft, HostDraft, Plan
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.noise import NO_NOISE
from mmspec.diagnostics.prompts import Prompt
from mmspec.diagnostics.single_turn import chunks_of, prefilled_target
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.ground.errors import UsageError


@dataclass(frozen=True, slots=True)
class Costs:
    """Median seconds of the parts of a round; no work is pending when a clock starts.

    A drafted token and a target forward each include the output head and the choice of the token.
    """

    gamma: int
    target_step: float
    """Seconds of a target forward over 1 row: a round of plain decoding."""
    target_block: float
    """Seconds of a target forward over gamma + 1 rows."""
    draft_step: dict[str, float]
    """Seconds per token of a draft of gamma tokens, by drafting; one letter is one branch."""

    @property
    def ratios(self) -> dict[str, float]:
        """The ratios on which the gain of speculation depends."""
        one, many = min(self.draft_step, key=len), max(self.draft_step, key=len)
        ratios = {"target step / draft step": self.target_step / self.draft_step[one]}
        if many != one:
            ratio = self.draft_step[many] / self.draft_step[one]
            ratios[f"{len(many)} branches / {len(one)}"] = ratio
        return ratios | {f"{self.gamma + 1} target rows / 1": self.target_block / self.target_step}


def costs(engine: Engine, prompt: Prompt, options: Options, repeats: int = 20) -> Costs:
    """Time drafts of one branch, with images also of four, and forwards over 1 and gamma + 1 rows.

    Commits nothing: every call starts from the same prompt.
    """
    gamma = MAX_AUTO_GAMMA if options.gamma == "auto" else options.gamma
    draftings = ["M", "MTCP"] if prompt.message.pictures and draft_sees(engine) else ["T"]
    rows = (1, gamma + 1)
    exact = engine.exact_rows(options.exact)
    (step, block), tokens = step_seconds(engine, prompt, rows, draftings, repeats, exact)
    return Costs(gamma, step, block, dict(zip(draftings, tokens, strict=True)))


def step_seconds(
    engine: Engine,
    prompt: Prompt,
    rows: Sequence[int],
    draftings: Sequence[str],
    repeats: int,
    exact: ExactRows | None = None,
) -> tuple[list[float], list[float]]:
    """Median seconds of a target forward over each of `rows`, and of a drafted token by drafting.

    Drafts and forwards alternate, and a draft is timed after two rounds of its own, so that the
    processor's caches are in the state of an answer.  A draft has max(rows) - 1 tokens; its seconds
    are divided by their number.  Without draftings the rows hold arbitrary tokens.

    exact: the rows with which the target decodes; None for ordinary forwards.
    """
    target = prefilled_target(engine, prompt.message, (), exact)
    drafters = [open_beside(engine, prompt, spec, target) for spec in draftings]
    return steps_beside(engine, target, drafters, rows, max(rows) - 1, repeats)


def steps_beside(
    engine: Engine,
    target: Target,
    drafters: Sequence[OpenDrafter],
    rows: Sequence[int],
    gamma: int,
    repeats: int,
) -> tuple[list[float], list[float]]:
    """`step_seconds` of sequences that hold a prompt, with drafts of `gamma` tokens."""
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


def open_beside(engine: Engine, prompt: Prompt, spec: str, target: Target) -> OpenDrafter:
    """Open a drafter of chains beside `target`, and prefill the same prompt."""
    options = Options(drafting=spec, tree=None)
    drafting = drafting_for(engine, options, ())
    if not drafting.branches:
        raise UsageError(f"{spec} drafts nothing whose cost could be measured")
    drafter = open_drafter(engine, options, drafting, target)
    drafter.prefill(chunks_of(engine, prompt.message))
    return drafter


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
