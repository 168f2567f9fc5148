"""Cache columns for the nodes of one draft, after the columns of the sequence.

Shape letters: R branches, w nodes of a level, E nodes of all levels so far, H width.
"""

from collections.abc import Sequence
from functools import partial

import mlx.core as mx

from mmspec.decoding.ensemble import Lineage
from mmspec_mlx.network.attention import additive
from mmspec_mlx.network.cache import Cache
from mmspec_mlx.network.decoder import Decoder
from mmspec_mlx.sequence.padding import Padding, causal_mask, tree_mask


class MlxDraftTail:
    """Implements `mmspec.decoding.ensemble.DraftTail`."""

    def __init__(
        self,
        decoder: Decoder,
        cache: Cache,
        padding: Padding | None,
        columns: int,
        starts: Sequence[int],
    ) -> None:
        """columns: number of columns of the sequence, all fed.

        starts: [R] each row's next position.
        """
        self._decoder, self._cache = decoder, cache
        self._padding, self._starts = padding, starts
        self._columns = self._end = columns
        self._level = 0
        self._lineage = Lineage(decoder.framework, partial(additive, dtype=decoder.dtype))

    def feed(self, x: mx.array, parents: mx.array | None) -> mx.array:
        """Feed x [w, H] to every row; returns outputs [R * w, H].  parents: None in a chain."""
        rows, count = len(self._starts), len(x)
        positions = [start + self._level for start in self._starts]
        at, self._end, self._level = self._end, self._end + count, self._level + 1
        if parents is None:
            rotation = self._decoder.rotary.at(positions, count)
            mask = causal_mask(self._padding, at, count, self._decoder.dtype)
        else:
            rotation = self._decoder.rotary.at_one_position(positions, count)
            lineage = self._lineage.add(parents)
            mask = tree_mask(self._padding, self._columns, lineage)
        x = mx.broadcast_to(x, (rows, *x.shape))
        return mx.flatten(self._decoder.feed(x, self._cache, at, rotation, mask), 0, 1)
