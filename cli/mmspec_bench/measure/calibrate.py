"""Measures the costs of rounds by context, from which adaptive draft lengths start.

The context is one token repeated: costs do not depend on which.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean, median
from time import perf_counter

from mmspec.chat.draft_selection import drafting_for, open_drafter
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.plugin_head import draft_errors
from mmspec.chat.session import OpenDrafter
from mmspec.decoding.contract import Drafter, Segment, Target
from mmspec.decoding.draft import Draft, HostDraft, Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.calibration_file import CONTEXTS, ROWS, Calibration
from mmspec.drafters.views import PLAIN
from mmspec.ground.progress import Notice, Progress
from mmspec_bench.measure.steadiness import REMEDY, Steadiness, measure_share, usual_ratio

TOKEN = 5
"""Id of the repeated token, which is not a special one in a Llama vocabulary."""
ROOM = max(ROWS)
"""Positions that must be free after a context, for the largest forward."""
LEVELS = 5
"""Number of levels of the tree whose drafting is timed."""
LONGEST = Plan(MAX_AUTO_GAMMA, nodes=MAX_AUTO_GAMMA)
"""Plan of the longest chain; with as many nodes as tokens, a drafter of trees drafts chains too."""
SECONDS, TIMES = 2.0, 4
"""Seconds for which short rounds go on being repeated, up to TIMES as often."""
PLAUSIBLE = 0.8
"""Lower limit of a forward's seconds over several rows, divided by its seconds over one row."""

Costs = dict[tuple[str, int, int], float]
"""Seconds by the name of a `Calibration`'s curve, the context, and rows or branches."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A calibration, and whether other programs disturbed it."""

    calibration: Calibration
    steadiness: Steadiness

    @property
    def problem(self) -> str:
        """Why it should not be used, and what to do; '' if nothing speaks against it."""
        curves = self.calibration.target.values()
        if all(min(curve.values()) > PLAUSIBLE * curve[1] for curve in curves):
            return self.steadiness.problem
        return self.steadiness.problem or f"several rows took less than a single one: {REMEDY}"


def calibrate(
    engine: Engine, progress: Progress, repeats: int = 4, *, exact: str = "auto"
) -> Measurement:
    """Time target forwards over each of ROWS, drafted tokens and levels with 1 to all branches.

    They are timed at each of CONTEXTS for which the models have positions; in place of a first one
    that exceeds the target's positions, at the longest that leaves room for every forward. All is
    timed twice, to see whether other programs disturb: `repeats` times each, and up to TIMES as
    often where forwards are short, because a few percent between two lengths decide.  It ends after
    the first context at which they did.

    exact: a mode of `--exact`; the target's forwards have the rows that it gives.
    """
    target = engine.target.model.open_target(GREEDY, engine.exact_rows(exact))
    share = measure_share(engine.target.model.device)
    specs, tree = branch_draftings(engine), None if engine.recurrent else Tree()
    options = [Options(drafting=spec, tree=tree) for spec in specs]
    drafters = [open_drafter(engine, it, drafting_for(engine, it), target) for it in options]
    halves: tuple[Costs, Costs] = {}, {}
    positions = engine.target.model.config.text.max_position_embeddings
    for context in sorted({min(context, positions - ROOM) for context in CONTEXTS}):
        progress(Notice(f"measuring after {context} tokens"))  # takes minutes, also in a pipe
        target.extend(Segment([[TOKEN] * (context - target.length)]))
        with draft_errors(specs[0] if specs else PLAIN.spec):
            drafters = [drafter for drafter in drafters if _extend(drafter, context)]
            sequences = _Sequences(engine, target, [each.drafter for each in drafters])
            times = sequences.repetitions(repeats)
            for costs in halves:
                costs.update(sequences.costs(times))
        measurement = _join(*halves, share())
        if measurement.problem:
            break
    return measurement


def _join(first: Costs, second: Costs, share: float | None) -> Measurement:
    """The means of two measurements, and how well they agree."""
    pairs = {key: (seconds, second[key]) for key, seconds in first.items()}
    curves: dict[str, dict[int, dict[int, float]]] = {}
    for (curve, context, number), pair in pairs.items():
        curves.setdefault(curve, {}).setdefault(context, {})[number] = mean(pair)
    return Measurement(Calibration(**curves), Steadiness(share, usual_ratio(pairs.values())))


def _extend(drafter: OpenDrafter, context: int) -> bool:
    """Extend to `context` tokens; False if the draft has no room for the longest chain there."""
    segment = Segment([[TOKEN] * (context - drafter.drafter.length)])
    drafter.drafter.extend([segment] * len(drafter.drafting.branches))
    room = drafter.room()
    return room is None or room >= MAX_AUTO_GAMMA


@dataclass(frozen=True, slots=True)
class _Sequences:
    """A target's sequence and, beside it, those of a drafter for each number of branches."""

    engine: Engine
    target: Target
    drafters: Sequence[Drafter]

    def repetitions(self, least: int) -> int:
        """How often to time each forward, so that those timed together take about SECONDS."""

        def once() -> None:
            draft = self.drafters[-1].draft(LONGEST, NO_NOISE) if self.drafters else None
            self.target.verify(draft, NO_NOISE)

        seconds = median(seconds_of(self.engine, once) for _ in range(3)) * len(ROWS)
        return max(least, min(TIMES * least, int(SECONDS / seconds)))

    def costs(self, repeats: int) -> Costs:
        """The costs at the sequences' context: medians of `repeats` passes after a first one."""
        context, more = self.target.length, MAX_AUTO_GAMMA - 1
        plans = {"draft": LONGEST, "first": Plan(1, nodes=1), "level": Plan(LEVELS)}
        if self.engine.recurrent:
            del plans["level"]
        timings = {("target", context, rows): partial(self._forward, rows) for rows in ROWS}
        timings |= {
            (name, context, branches): partial(self._level, drafter, plan)
            for name, plan in plans.items()
            for branches, drafter in enumerate(self.drafters, start=1)
        }
        _, *passes = ({key: time() for key, time in timings.items()} for _ in range(1 + repeats))
        costs = {key: median(times[key] for times in passes) for key in timings}
        for branches in range(1, len(self.drafters) + 1):
            first, token = (costs[name, context, branches] for name in ("first", "draft"))
            costs["draft", context, branches] = max(MAX_AUTO_GAMMA * token - first, token) / more
        return costs

    def _forward(self, rows: int) -> float:
        """Seconds of a forward over `rows` rows; without a draft they hold arbitrary tokens."""
        is_chain = rows <= MAX_AUTO_GAMMA + 1

        def propose() -> Draft | None:
            if rows == 1:
                return None
            if is_chain and self.drafters:
                draft = self.drafters[0].draft(Plan(rows - 1, nodes=rows - 1), NO_NOISE)
                if draft and draft.size == rows - 1:  # a head may draft fewer tokens
                    return draft
            return HostDraft([0] * (rows - 1))

        if is_chain:  # large forwards take long, and what was before them matters little
            self._settle(propose)
        draft = propose()
        return seconds_of(self.engine, lambda: self.target.verify(draft, NO_NOISE))

    def _level(self, drafter: Drafter, plan: Plan) -> float:
        """Seconds of a drafted level; a level of a chain is a token."""
        propose = partial(drafter.draft, plan, NO_NOISE)
        draft = self._settle(propose)
        return seconds_of(self.engine, propose) / (draft.depth if draft else plan.gamma)

    def _settle(self, propose: Callable[[], Draft | None]) -> Draft | None:
        """Two such rounds, so that the processor's caches are as in an answer; the last draft."""
        for _ in range(2):
            draft = propose()
            self.target.verify(draft, NO_NOISE)
        return draft


def branch_draftings(engine: Engine) -> list[str]:
    """One drafting for each possible number of branches: M, MT, MTC, MTCP."""
    if engine.head:
        return [engine.head.kind]
    if engine.draft is None:
        return []
    sees = engine.draft.model.config.vision is not None
    able = {"M": sees, "T": True, "C": engine.captioner, "P": sees}
    letters = [letter for letter, is_able in able.items() if is_able]
    most = 1 if engine.draft.model.config.text.delta_net else len(letters)
    return ["".join(letters[: count + 1]) for count in range(most)]


def seconds_of(engine: Engine, call: Callable[[], object]) -> float:
    """Seconds of a call and all work that it enqueues, after earlier work is done."""
    engine.backend.synchronize()
    start = perf_counter()
    call()
    engine.backend.synchronize()
    return perf_counter() - start
