"""Measures what `mmspec.calibration` keeps."""

from mmspec.bench.costs import Passes, branch_words, steps
from mmspec.bench.prompts import default_prompts
from mmspec.calibration import ROWS, Calibration
from mmspec.engine import Engine

REPEATS = 7


def calibrate(engine: Engine, repeats: int = REPEATS) -> Calibration:
    """Time target forwards over 1 to ROWS rows, and drafted tokens of 1 to all branches.

    The prompt is the first of the drawn world's, or a written one for a target that sees nothing.
    """
    [prompt] = default_prompts(engine, 1)
    rows = range(1, ROWS + 1)
    target, draft = steps(engine, prompt, rows, branch_words(engine), Passes(repeats))
    return Calibration(dict(zip(rows, target, strict=True)), dict(enumerate(draft, start=1)))
