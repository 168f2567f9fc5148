"""Measures the costs of rounds by context, from which adaptive draft lengths start.

The context is one token repeated: costs do not depend on which.
"""

from collections.abc import Sequence
from statistics import median

from mmspec.chat.draft_selection import drafting_for, open_drafter
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import OpenDrafter
from mmspec.decoding.draft import Draft
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.calibration_file import CONTEXTS, ROWS, Calibration
from mmspec.draft_length.cost_curves import Seconds
from mmspec.seam import Segment, Target
from mmspec_bench import Progress
from mmspec_bench.measure.costs import branch_draftings, seconds_of, steps_beside

TOKEN = 5
"""Id of the repeated token, which is not a special one in a Llama vocabulary."""
ROOM = max(ROWS)
"""Positions that must be free after a context, for the largest forward."""
LEVELS = 5
"""Number of levels of the tree whose drafting is timed."""


def calibrate(engine: Engine, progress: Progress, repeats: int = 7) -> Calibration:
    """Time target forwards over each of ROWS, drafted tokens and levels with 1 to all branches.

    They are timed at each of CONTEXTS for which the models have positions; in place of a first one
    that exceeds the target's positions, at the longest that leaves room for every forward.
    """
    target = engine.target.model.open_target(GREEDY, engine.exact_rows("auto"))
    drafters = [_opened(engine, spec, target) for spec in branch_draftings(engine)]
    forwards, tokens, levels = dict[int, Seconds](), dict[int, Seconds](), dict[int, Seconds]()
    for context in _contexts(engine.target.model.config.text.max_position_embeddings):
        progress(f"measuring after {context} tokens")
        target.extend(_repeated(context - target.length))
        drafters = [drafter for drafter in drafters if _extended(drafter, context)]
        measured = steps_beside(engine, target, drafters, ROWS, MAX_AUTO_GAMMA, repeats)
        forwards[context] = dict(zip(ROWS, measured[0], strict=True))
        if drafters:
            wide = (_level_seconds(engine, target, drafter, repeats) for drafter in drafters)
            tokens[context] = dict(enumerate(measured[1], start=1))
            levels[context] = dict(enumerate(wide, start=1))
    return Calibration(forwards, tokens, levels)


def _level_seconds(engine: Engine, target: Target, opened: OpenDrafter, repeats: int) -> float:
    """Median seconds of a level of a tree, after two rounds of its own."""

    def tree() -> Draft | None:
        return opened.drafter.draft(LEVELS, opened.drafting.weights, NO_NOISE)

    def once() -> float:
        for _ in range(2):
            target.verify(tree(), NO_NOISE)
        return seconds_of(engine, tree)

    draft = tree()
    return median(once() for _ in range(repeats)) / (draft.depth if draft else LEVELS)


def _contexts(positions: int) -> Sequence[int]:
    return sorted({min(context, positions - ROOM) for context in CONTEXTS})


def _opened(engine: Engine, spec: str, target: Target) -> OpenDrafter:
    options = Options(drafting=spec, tree=Tree())
    return open_drafter(engine, options, drafting_for(engine, options), target)


def _repeated(count: int) -> Segment:
    return Segment([[TOKEN] * count])


def _extended(opened: OpenDrafter, context: int) -> bool:
    """Extend to `context` tokens; False if that would exceed the draft's positions."""
    if opened.positions is not None and context + MAX_AUTO_GAMMA > opened.positions:
        return False
    segment = _repeated(context - opened.drafter.length)
    opened.drafter.extend([segment] * len(opened.drafting.branches))
    return True
