"""The rule for choosing tokens and the framework's functions, in numpy."""

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial

import numpy as np

from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.framework import Framework
from mmspec.decoding.noise import Noise, exponentials
from mmspec.decoding.sampling import Sampler, Sampling

QUIET = Noise(seed=0, position=0)
"""For sequences that are greedy, which read no noise."""


def top(p: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.argsort(-p, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(p, chosen, axis=-1), chosen


def keys(noise: Noise, count: int) -> np.ndarray:
    return np.array(noise.keys(count), dtype=np.uint32)


def sampler(sampling: Sampling) -> Sampler:
    ids = partial(np.arange, dtype=np.uint32)
    return Sampler(np, top, partial(exponentials, np), sampling, ids)


def read(*parts: np.ndarray) -> Iterator[list[float]]:
    return (part.tolist() for part in parts)


FRAMEWORK = Framework(
    xp=np,
    concat=np.concatenate,
    split=partial(np.array_split, axis=-1),
    pick=lambda rows, places: rows[places],
    silu=lambda x: x / (1 + np.exp(-x)),
    softmax=lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    sampler=sampler,
    keys=keys,
    count=np.arange,
    integers=partial(np.array, dtype=np.int64),
    floats=partial(np.array, dtype=np.float32),
    top=top,
    draft_type=DeviceDraft,
    start=lambda _: None,
    read=read,
    to_host=np.asarray,
    inference=nullcontext,
)
