"""Measures what exact decoding costs a plain token."""

from collections.abc import Sequence
from math import inf
from time import perf_counter

from mmspec.decoding.contract import Model, Segment, Target
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY

CONTEXTS = (64, 512, 2048)
"""Positions before the tokens that are timed."""
TOKENS = 15
"""Tokens that are timed each way, in turns, after each context."""
WARM_UP = 3
"""Tokens each way that are not timed."""


def price_of(model: Model, rows: ExactRows, enough: float = inf) -> float:
    """The time of a plain token in exact forwards, divided by that in ordinary ones.

    The highest of the prices after CONTEXTS, as far as the model has positions, or the first above
    `enough`.
    """
    most = model.config.text.max_position_embeddings - TOKENS - WARM_UP - 1
    targets = [model.open_target(GREEDY, way) for way in (None, rows)]
    price = 0.0
    for context in sorted({min(context, most) for context in CONTEXTS}):
        price = max(price, _price_after(targets, context))
        if price > enough:
            break
    return price


def _price_after(targets: Sequence[Target], context: int) -> float:
    """The price after `context` positions; targets: the ordinary one, then the exact one."""
    for target in targets:
        target.rewind(min(target.length, context))
        target.extend(Segment([[1] * (context - target.length)]))
    seconds = [[_token_seconds(target) for target in targets] for _ in range(WARM_UP + TOKENS)]
    # The time that a quarter of the tokens stay below: other programs only make them slower.
    ways = zip(*seconds[WARM_UP:], strict=True)
    ordinary, exact = (float(sorted(way)[TOKENS // 4]) for way in ways)
    return exact / ordinary


def _token_seconds(target: Target) -> float:
    started = perf_counter()
    target.verify(None, NO_NOISE)
    target.commit((), 1)
    return perf_counter() - started
