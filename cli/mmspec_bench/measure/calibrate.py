"""The measurement of `mmspec calibrate`."""

from mmspec.chat.engine import Engine
from mmspec.draft_length.calibration_file import ROWS, Calibration
from mmspec_bench.measure.costs import branch_draftings, step_seconds
from mmspec_bench.prompts import default_prompts

REPEATS = 7


def calibrate(engine: Engine, repeats: int = REPEATS) -> Calibration:
    """Time target forwards over 1 to ROWS rows, and drafted tokens of 1 to all branches.

    The prompt is the first default one: about a picture, or text only for a text-only target.
    """
    [prompt] = default_prompts(engine, 1)
    rows = range(1, ROWS + 1)
    target, draft = step_seconds(engine, prompt, rows, branch_draftings(engine), repeats)
    return Calibration(dict(zip(rows, target, strict=True)), dict(enumerate(draft, start=1)))
