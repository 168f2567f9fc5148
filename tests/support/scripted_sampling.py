"""The rule for choosing tokens, in numpy."""

from functools import partial

import numpy as np

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
