"""Prompts, pictures, sequences and rounds for the tests of one backend, given its models."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from mmspec.decoding.contract import Features, Segment
from mmspec.decoding.loop import decode
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.draft_length.policy import FixedDraftLength
from support import factory
from support.faults import Fault

IMAGE = factory.IMAGE_TOKEN_ID
VOCABULARY = 320
NEWLINE = 13
TEXT = Segment([[1, 20, 21, 22, 40, 41, 42]])
DRAWN = Sampling(temperature=0.9)

both_samplings = pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])


def pixels(size: int, count: int = 1, seed: int = 0) -> np.ndarray:
    """Random preprocessed images [count, 3, size, size]."""
    shape = (count, 3, size, size)
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def prompt(images: Sequence[Features] = ()) -> Segment:
    """Text, then each image followed by some text."""
    parts: list[Any] = [[1, 20, 21]]
    for place, image in enumerate(images):
        parts += [image, [NEWLINE, 30 + place]]
    return Segment([*parts, [40, 41, 42]])


def without_images(segment: Segment) -> Segment:
    """The same text with a newline in place of each image."""
    return Segment([p if isinstance(p, Sequence) else [NEWLINE] for p in segment.parts])


def views_of(model: Any) -> list[Segment]:
    """One prompt of two images as M, T and P see it."""
    images = [model.encode(image) for image in pixels(32, 2)]
    whole = prompt(images)
    return [whole, without_images(whole), prompt([image.pooled(4) for image in images])]


def target(model: Any, segment: Segment, sampling: Sampling = GREEDY) -> Any:
    """A target that holds `segment`."""
    sequence = model.open_target(sampling)
    sequence.extend(segment)
    return sequence


def drafter(
    model: Any, rows: Sequence[Segment], sampling: Sampling = GREEDY, tree: Tree | None = None
) -> Any:
    """A drafter that holds `rows`."""
    sequences = model.open_drafter(len(rows), VOCABULARY, sampling, None, tree)
    sequences.extend(rows)
    return sequences


def even(drafter: Any) -> list[float]:
    """Equal weights for a drafter's rows."""
    return [1 / len(drafter.row_lengths)] * len(drafter.row_lengths)


def draft_ids(drafter: Any, k: int) -> list[int]:
    """What a greedy drafter proposes."""
    return drafter.draft(k, even(drafter), NO_NOISE).ids.tolist()


def plain(target: Any, count: int) -> list[int]:
    """Greedy tokens of the target alone."""
    token_ids: list[int] = []
    for _ in range(count):
        token_ids += target.verify(None, NO_NOISE).best
        target.commit([], token_ids[-1])
    return token_ids


def continue_from(sequence: Any, model: Any, whole: Segment, cut: int) -> None:
    """A target that holds `whole`, rewound to `cut`, goes on as a fresh one that was."""
    fresh = target(model, whole)
    for each in (sequence, fresh):
        each.rewind(cut)
        each.extend(Segment([[30, 31]]))
    np.testing.assert_allclose(sequence.logits(), fresh.logits(), atol=1e-5)
    for each in (sequence, fresh):
        plain(each, 1)
    np.testing.assert_allclose(sequence.logits(), fresh.logits(), atol=1e-5)


class FixedWeights:
    """The same weights in every round, equal ones by default."""

    def __init__(self, *weights: float) -> None:
        self._weights = weights

    def weights(self, row_lengths: Sequence[int], gamma: int) -> Sequence[float]:
        return self._weights or [1 / len(row_lengths)] * len(row_lengths)


def rounds(
    target: Any, drafter: Any, count: int, *weights: float, gamma: int = 4, seed: int = 0
) -> list[Any]:
    """The rounds of `count` tokens."""
    fixed = FixedWeights(*weights)
    length = FixedDraftLength(gamma)
    return list(decode(target, drafter, fixed, draft_length=length, max_tokens=count, seed=seed))


def tokens(rounds: Sequence[Any]) -> list[int]:
    """The tokens of all rounds."""
    return [token for each in rounds for token in each.tokens]


@contextmanager
def failing(models: Sequence[Any], call: int) -> Iterator[None]:
    """Raise Fault in the given call of the models' attention, counted from 0."""
    modules = [layer.self_attn for model in models for layer in model.language._layers]
    attention, layers = type(modules[0]), {id(each) for each in modules}
    original, left = attention.__call__, iter(range(call, -1, -1))

    def attend(*arguments: Any) -> Any:
        if id(arguments[0]) in layers and next(left, -1) == 0:
            raise Fault
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "__call__", attend)
        yield
