"""Measures the costs of rounds by context, from which adaptive draft lengths start.

The context is one token repeated: costs do not depend on which.
"""

from collections.abc import Sequence

from mmspec.chat.draft_selection import drafting_for, open_drafter
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import OpenDrafter
from mmspec.decoding.sampling import GREEDY
from mmspec.draft_length.calibration_file import CONTEXTS, ROWS, Calibration
from mmspec.seam import Segment, Target
from mmspec_bench import Progress
from mmspec_bench.measure.costs import branch_draftings, steps_beside

TOKEN = 5
"""Id of the repeated token, which is not a special one in a Llama vocabulary."""


def calibrate(engine: Engine, progress: Progress, repeats: int = 7) -> Calibration:
    """Time target forwards over 1 to ROWS rows, and drafted tokens with 1 to all branches.

    They are timed at each of CONTEXTS for which the models have positions; in place of a first one
    that exceeds the target's positions, at the longest that leaves room for ROWS rows.
    """
    target = engine.target.model.open_target(GREEDY)
    drafters = [_opened(engine, spec, target) for spec in branch_draftings(engine)]
    rows = range(1, ROWS + 1)
    forwards: dict[int, dict[int, float]] = {}
    tokens: dict[int, dict[int, float]] = {}
    for context in _contexts(engine.target.model.config.text.max_position_embeddings):
        progress(f"measuring after {context} tokens")
        target.extend(_repeated(context - target.length))
        drafters = [drafter for drafter in drafters if _extended(drafter, context)]
        seconds, drafted = steps_beside(engine, target, drafters, rows, repeats)
        forwards[context] = dict(zip(rows, seconds, strict=True))
        if drafters:
            tokens[context] = dict(enumerate(drafted, start=1))
    return Calibration(forwards, tokens)


def _contexts(positions: int) -> Sequence[int]:
    return sorted({min(context, positions - ROWS) for context in CONTEXTS})


def _opened(engine: Engine, spec: str, target: Target) -> OpenDrafter:
    options = Options(drafting=spec)
    return open_drafter(engine, options, drafting_for(engine, options), target)


def _repeated(count: int) -> Segment:
    return Segment([[TOKEN] * count])


def _extended(opened: OpenDrafter, context: int) -> bool:
    """Extend to `context` tokens; False if that would exceed the draft's positions."""
    if opened.positions is not None and context + ROWS > opened.positions:
        return False
    segment = _repeated(context - opened.drafter.length)
    opened.drafter.extend([segment] * len(opened.drafting.branches))
    return True
