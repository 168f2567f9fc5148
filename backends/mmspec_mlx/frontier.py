"""Columns behind the committed ones, for the nodes of a draft.

Shape letters: R branches, w nodes expanded at once, H width.
"""

from collections.abc import Sequence

import mlx.core as mx

from mmspec_mlx.cache import Cache
from mmspec_mlx.columns import Columns
from mmspec_mlx.growth import Lineage
from mmspec_mlx.llama import Decoder


class Tail:
    """Implements `mmspec.frontier.Tail`."""

    def __init__(
        self, decoder: Decoder, cache: Cache, columns: Columns, end: int, starts: Sequence[int]
    ) -> None:
        """Start behind `end` columns, which are all fed; starts: [R] the next positions."""
        self._decoder, self._cache = decoder, cache
        self._columns, self._starts = columns, starts
        self._committed = self._end = end
        self._level = 0
        self._lineage = Lineage()

    def feed(self, x: mx.array, parents: mx.array | None) -> mx.array:
        """Feed x [w, H] to every row; returns outputs [R * w, H]."""
        rows, count = len(self._starts), len(x)
        positions = [start + self._level for start in self._starts]
        turn = self._decoder.rotary.same(positions, count)
        mask = None
        if parents is not None:
            mask = self._columns.behind(self._committed, self._lineage.add(parents, x.dtype))
        at, self._end, self._level = self._end, self._end + count, self._level + 1
        fed = mx.broadcast_to(x, (rows, *x.shape))
        return mx.flatten(self._decoder.feed(fed, self._cache, at, turn, mask), 0, 1)
