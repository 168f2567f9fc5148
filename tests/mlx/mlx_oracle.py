"""Prompts, pictures and rounds for the MLX tests."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import factory
from mmspec.loop import decode
from mmspec.sampling import GREEDY, Sampling
from mmspec.seam import Features, Segment
from mmspec.tree import Tree

DRAWN = Sampling(temperature=0.9)
both_samplings = pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])

IMAGE = factory.IMAGE_TOKEN_ID
VOCABULARY = 320


def pixels(size: int, seed: int = 0) -> np.ndarray:
    """A random preprocessed image [3, size, size]."""
    return np.random.default_rng(seed).standard_normal((3, size, size), dtype=np.float32)


def prompt(images: Sequence[Features] = ()) -> Segment:
    """Text, and before each further word an image."""
    tokens = [1, 25, 26]
    for word, image in enumerate(images):
        tokens += [*[IMAGE] * image.positions, 13, 50 + word]
    return Segment([*tokens, 70, 71, 72], images)


TEXT = Segment([1, 25, 26, 13, 50, 70, 71, 72])


def target(model: Any, segment: Segment, sampling: Any = GREEDY) -> Any:
    """A target that holds `segment`."""
    opened = model.open_target(sampling)
    opened.extend(segment)
    return opened


def drafter(
    model: Any, rows: Sequence[Segment], sampling: Any = GREEDY, tree: Tree | None = None
) -> Any:
    """A drafter that holds `rows`."""
    opened = model.open_drafter(len(rows), VOCABULARY, sampling, None, tree)
    opened.extend(rows)
    return opened


def even(drafter: Any) -> list[float]:
    """Equal weights for a drafter's rows."""
    return [1 / len(drafter.row_lengths)] * len(drafter.row_lengths)


def drafted(drafter: Any, k: int) -> list[int]:
    """What a greedy drafter proposes."""
    return [each.item() for each in drafter.draft(k, even(drafter), ()).ids]


def seed(sampling: Sampling) -> int | None:
    """The seed that `rounds` takes for a way of sampling."""
    return None if sampling.greedy else 3


def plain(target: Any, count: int) -> list[int]:
    """Greedy tokens of the target alone."""
    said: list[int] = []
    for _ in range(count):
        said += target.verify(None, ()).fallback
        target.commit([], said[-1])
    return said


class Fixed:
    """The same weights in every round."""

    def __init__(self, *weights: float) -> None:
        self._weights = weights

    def weights(self, row_lengths: Sequence[int], gamma: int) -> Sequence[float]:
        return self._weights or [1 / len(row_lengths)] * len(row_lengths)


def rounds(
    target: Any, drafter: Any, count: int, *weights: float, gamma: int = 4, seed: Any = None
) -> list[Any]:
    """The rounds of `count` tokens."""
    return list(decode(target, drafter, Fixed(*weights), gamma=gamma, max_tokens=count, seed=seed))


def tokens(rounds: Sequence[Any]) -> list[int]:
    """What the rounds said."""
    return [token for each in rounds for token in each.tokens]


class Fault(BaseException):
    """Raised where an interrupt would be."""


@contextmanager
def failing(model: Any, call: int) -> Iterator[None]:
    """Raise Fault in the given call of the model's attention, counted from 0."""
    llama, calls = model.llama, iter(range(call, -1, -1))
    whole = llama.kernels

    def attention(*given: Any) -> Any:
        if next(calls, -1) == 0:
            raise Fault
        return whole.attention(*given)

    llama.kernels = replace(whole, attention=attention)
    try:
        yield
    finally:
        llama.kernels = whole
