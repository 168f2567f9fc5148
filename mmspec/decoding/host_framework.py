"""A `Framework` of numpy's functions, for backends that compute on the host."""

from contextlib import nullcontext
from functools import partial

import numpy as np

from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.formulas import Array, softmax
from mmspec.decoding.framework import Framework
from mmspec.decoding.segment import GridFeatures


def top(p: Array, count: int) -> tuple[Array, Array]:
    """The `count` largest entries of p [..., V] and their indices; on ties the lowest."""
    best = np.apply_along_axis(_largest, -1, p, count)
    return np.take_along_axis(p, best, axis=-1), best


def _largest(row: Array, count: int) -> Array:
    """Indices of the `count` largest entries of row [V]; sorts only what may be among them."""
    least = np.partition(row, -count)[-count] if count < len(row) else -np.inf
    above = np.flatnonzero(~(row <= least))  # NaN is among them
    equal = np.flatnonzero(row == least)[: max(count - len(above), 0)]  # or all zeros would be
    places = np.concatenate([above, equal])
    return places[np.argsort(-row[places], kind="stable")[:count]]


HOST: Framework[Array] = Framework(
    xp=np,
    concat=np.concatenate,
    split=partial(np.split, axis=-1),
    pick=lambda rows, places: rows[places],
    silu=lambda x: x / (1 + np.exp(-x)),
    softmax=partial(softmax, np),
    keys=lambda noise, count: np.array(noise.keys(count), dtype=np.uint32),
    ids=partial(np.arange, dtype=np.uint32),
    count=np.arange,
    integers=partial(np.array, dtype=np.int64),
    floats=partial(np.array, dtype=np.float32),
    zeros=np.zeros,
    top=top,
    draft_type=DeviceDraft,
    start=lambda _: None,
    settle=lambda *_: None,
    compile=lambda formula: formula,
    to_host=np.asarray,
    inference=nullcontext,
)


class HostFeatures(GridFeatures):
    """Vision features in numpy."""

    join = staticmethod(partial(np.concatenate, axis=-1))
