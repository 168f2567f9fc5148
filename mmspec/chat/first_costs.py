"""Times a few rounds before the first answer, where `mmspec calibrate` has not measured them.

Without these a session's first answer would be spent on finding out what rounds cost.
"""

from operator import sub
from time import perf_counter

from mmspec.chat.draft_selection import drafting_for, open_drafter
from mmspec.chat.models import Models
from mmspec.chat.options import Options
from mmspec.chat.plugin_head import draft_errors
from mmspec.decoding.contract import Drafter, Target
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.segment import Segment
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.calibration_file import Calibration
from mmspec.drafters.views import LOOKUP, PLAIN

CONTEXT = 64
"""Tokens before the rounds."""
TOKEN = 5
GAMMAS = (0, 1, 2, 4, MAX_AUTO_GAMMA)
PASSES = 4
"""Times that all drafts are tried in turn, so that a slow moment is not one draft's alone."""
REPEATS = 2
"""Rounds of each draft in a pass; the least time counts, for what disturbs only makes slower."""
SECONDS = 1.0
"""After so long no other draft is tried: a chat begins soon with slow models too."""


def measure_first_costs(models: Models, options: Options) -> None:
    """Measure this drafting's rounds, for about SECONDS, unless calibrated costs are there."""
    if options.gamma != "auto" or models.drafts is None or options.drafting == PLAIN.spec:
        return
    exact, room = models.exact_rows(options.exact), models.target.model.config.text
    if models.calibration(exact).target or room.max_position_embeddings < 2 * CONTEXT:
        return
    drafting = drafting_for(models, options)
    target = models.target.model.open_target(GREEDY, exact)
    drafter = open_drafter(models, options, drafting, target)
    segment = Segment([[TOKEN] * CONTEXT])
    target.extend(segment)
    with draft_errors(drafting.spec):
        drafter.drafter.extend([segment] * len(drafting.branches))
        times = _least_times(models, target, drafter.drafter)
    if len(times) > 1:
        costs = _calibration(times, len(drafting.branches))
        models.calibrations[exact] = Calibration(costs.target) if drafting == LOOKUP else costs


def _least_times(
    models: Models, target: Target, drafter: Drafter
) -> dict[int, tuple[float, float]]:
    """Seconds of drafting and of verifying by number of drafted tokens; none is committed."""
    clocks = perf_counter, models.work_seconds  # the one by which the least time passes counts
    least: dict[int, tuple[float, float]] = {}
    start = perf_counter()
    for gamma in GAMMAS * PASSES:
        for _ in range(REPEATS):
            before = [clock() for clock in clocks]
            draft = drafter.draft(Plan(gamma, gamma), NO_NOISE) if gamma else None
            models.backend.synchronize()  # the draft may only be enqueued
            between = [clock() for clock in clocks]
            target.verify(draft, NO_NOISE)
            after = [clock() for clock in clocks]
            times = min(map(sub, between, before)), min(map(sub, after, between))
            size = draft.size if draft else 0
            least[size] = min(least.get(size, times), times, key=sum)
        if perf_counter() - start > SECONDS:
            break
    return least


def _calibration(times: dict[int, tuple[float, float]], branches: int) -> Calibration:
    most, fewest = max(times), min(size for size in times if size)
    first, last = times[fewest][0], times[most][0]
    token = max(last - first, 0.0) / (most - fewest) if most > fewest else first
    return Calibration(
        {CONTEXT: {size + 1: seconds for size, (_, seconds) in times.items()}},
        {CONTEXT: {branches: token}},
        first={CONTEXT: {branches: first}},
    )
