"""What heads ask of MLX; see `mmspec.heads.seam`.

Shape letters: n rows, k drafted tokens, H width, V vocabulary.
"""

from contextlib import nullcontext
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np

from mmspec import maths
from mmspec.heads.seam import Framework
from mmspec_mlx import host
from mmspec_mlx.columns import Columns
from mmspec_mlx.draft import MlxDraft
from mmspec_mlx.frontier import Tail
from mmspec_mlx.growth import grown
from mmspec_mlx.llama import CHUNK, Decoder


def framework(xp: Any) -> Framework[mx.array]:
    """MLX's calls; `xp` is what `mmspec.maths` is called with."""
    return Framework(
        xp=xp,
        concat=mx.concatenate,
        pick=partial(mx.take, axis=0),
        silu=lambda x: x * mx.sigmoid(x),
        softmax=partial(mx.softmax, axis=-1),
        probabilities=partial(maths.softmax, xp),
        floats=host.numbers,
        chained=chained,
        grown=partial(grown, xp=xp),
        inference=nullcontext,
    )


def chained(ids: mx.array, q: mx.array | None) -> MlxDraft:
    """A chain of ids [k] drawn from q [k, V], on which the device starts."""
    host.start(ids)
    return MlxDraft(ids, q)


class CachedLayer:
    """Implements `mmspec.heads.seam.Layer`."""

    def __init__(self, decoder: Decoder) -> None:
        """Start with an empty cache."""
        self._decoder = decoder
        self._cache = decoder.new_cache(rows=1)
        self._columns = Columns(np.ones((1, 0), dtype=np.bool_), decoder.dtype)

    def append(self, x: mx.array, start: int) -> mx.array:
        """Feed rows [n, H], as many at once as a prompt's tokens."""
        last = x
        for low in range(0, len(x), CHUNK):
            last = self._decoder.append(x[low : low + CHUNK], self._cache, start + low)
        return last[-1:]

    def settle(self) -> None:
        """Wait until the cache is computed."""
        self._cache.settle()

    def tail(self, columns: int) -> Tail:
        """Start a draft; every node of a level is at one position."""
        return Tail(self._decoder, self._cache, self._columns, columns, [columns])
