"""MLX's operations for predictive heads; see `mmspec.drafters.heads.backend_interface`.

Shape letters: n rows, k drafted tokens, H width, V vocabulary.
"""

from contextlib import nullcontext
from functools import partial

import mlx.core as mx
import numpy as np

from mmspec.drafters.heads.backend_interface import Framework
from mmspec_mlx import device_io
from mmspec_mlx.cpu.kernels import Kernels
from mmspec_mlx.network.llama import CHUNK, Decoder
from mmspec_mlx.sequence.contents import Columns
from mmspec_mlx.sequence.draft import MlxDraft
from mmspec_mlx.sequence.draft_tail import MlxDraftTail
from mmspec_mlx.sequence.sampling import keys, sampler
from mmspec_mlx.sequence.tree_ops import tree_draft


def framework(kernels: Kernels) -> Framework[mx.array]:
    """Return MLX's calls as a `Framework`."""
    return Framework(
        xp=kernels.arrays,
        concat=mx.concatenate,
        pick=partial(mx.take, axis=0),
        silu=lambda x: x * mx.sigmoid(x),
        softmax=partial(mx.softmax, axis=-1),
        sampler=partial(sampler, kernels=kernels),
        keys=keys,
        chain_draft=chain_draft,
        tree_draft=tree_draft,
        inference=nullcontext,
    )


def chain_draft(ids: mx.array) -> MlxDraft:
    """Return a chain of ids [k], whose computation is started."""
    device_io.start(ids)
    return MlxDraft(ids)


class CachedLayer:
    """Implements `mmspec.drafters.heads.backend_interface.Layer`."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._cache = decoder.new_cache(rows=1)
        self._columns = Columns(np.ones((1, 0), dtype=np.bool_), decoder.dtype)

    def append(self, x: mx.array, start: int) -> mx.array:
        """Feed rows [n, H] in chunks; returns the last output [1, H]."""
        last = x
        for low in range(0, len(x), CHUNK):
            last = self._decoder.append(x[low : low + CHUNK], self._cache, start + low)
        return last[-1:]

    def settle(self) -> None:
        """Wait until the cache is computed."""
        self._cache.settle()

    def tail(self, columns: int) -> MlxDraftTail:
        """Open a draft tail; all nodes of a level share a position."""
        return MlxDraftTail(self._decoder, self._cache, self._columns, columns, [columns])
