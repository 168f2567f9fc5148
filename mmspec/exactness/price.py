"""Measures what exact decoding costs a plain token."""

from statistics import median
from time import perf_counter

from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.inspection import InspectableModel, InspectableTarget
from mmspec.seam import Segment

CONTEXT = 512
"""Positions before the tokens that are timed."""
TOKENS = 15
"""Tokens that are timed each way, in turns."""
WARM_UP = 3
"""Tokens each way that are not timed."""


def price_of(model: InspectableModel, rows: ExactRows) -> float:
    """The time of a plain token in exact forwards, divided by that in ordinary ones."""
    positions = model.config.text.max_position_embeddings
    context = min(CONTEXT, positions - TOKENS - WARM_UP - 1)
    targets = [model.open_target(GREEDY, way) for way in (None, rows)]
    for target in targets:
        target.extend(Segment([[1] * context]))
    seconds = [[_token_seconds(target) for target in targets] for _ in range(WARM_UP + TOKENS)]
    ordinary, exact = (median(way) for way in zip(*seconds[WARM_UP:], strict=True))
    return float(exact / ordinary)


def _token_seconds(target: InspectableTarget) -> float:
    started = perf_counter()
    target.verify(None, NO_NOISE)
    target.commit((), 1)
    return perf_counter() - started
