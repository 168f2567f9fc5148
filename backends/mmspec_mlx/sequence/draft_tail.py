"""Cache columns after the committed ones, for the nodes of a draft.

Shape letters: R branches, w nodes expanded at once, H width.
"""

from collections.abc import Sequence

import mlx.core as mx

from mmspec_mlx.network.cache import Cache
from mmspec_mlx.network.llama import Decoder
from mmspec_mlx.sequence.contents import Columns
from mmspec_mlx.sequence.tree_ops import Lineage


class MlxDraftTail:
    """Implements `mmspec.decoding.ensemble_expander.DraftTail`."""

    def __init__(
        self, decoder: Decoder, cache: Cache, columns: Columns, end: int, starts: Sequence[int]
    ) -> None:
        """end: committed columns, all fed.  starts: [R] the next position of each row."""
        self._decoder, self._cache = decoder, cache
        self._columns, self._starts = columns, starts
        self._committed = self._end = end
        self._level = 0
        self._lineage = Lineage()

    def feed(self, x: mx.array, parents: mx.array | None) -> mx.array:
        """Feed x [w, H] to every row; returns outputs [R * w, H]."""
        rows, count = len(self._starts), len(x)
        positions = [start + self._level for start in self._starts]
        at, self._end, self._level = self._end, self._end + count, self._level + 1
        if parents is None:
            turn, mask = self._decoder.rotary.at(positions, count), self._columns.mask(at, count)
        else:
            turn = self._decoder.rotary.same(positions, count)
            mask = self._columns.behind(self._committed, self._lineage.add(parents, x.dtype))
        x = mx.broadcast_to(x, (rows, *x.shape))
        return mx.flatten(self._decoder.feed(x, self._cache, at, turn, mask), 0, 1)
