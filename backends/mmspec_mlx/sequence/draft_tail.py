"""Cache columns for the nodes of one draft, after the columns of the sequence.

Shape letters: R branches, w nodes of a level, E nodes of all levels so far, H width.
"""

from collections.abc import Sequence

import mlx.core as mx

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
        self._lineage = Lineage()

    def feed(self, x: mx.array, parents: mx.array | None) -> mx.array:
        """Feed x [w, H] to every row; returns outputs [R * w, H].  parents: None in a chain."""
        rows, count = len(self._starts), len(x)
        positions = [start + self._level for start in self._starts]
        at, self._end, self._level = self._end, self._end + count, self._level + 1
        if parents is None:
            turn = self._decoder.rotary.at(positions, count)
            mask = causal_mask(self._padding, at, count, self._decoder.dtype)
        else:
            turn = self._decoder.rotary.same(positions, count)
            lineage = self._lineage.add(parents, x.dtype)
            mask = tree_mask(self._padding, self._columns, lineage)
        x = mx.broadcast_to(x, (rows, *x.shape))
        return mx.flatten(self._decoder.feed(x, self._cache, at, turn, mask), 0, 1)


class Lineage:
    """The attention masks of a tree that is drafted level by level.

    A node sees its ancestors and itself. The masks cover the tree's own columns, which follow the
    committed ones.
    """

    def __init__(self) -> None:
        self._mask: mx.array | None = None

    def add(self, parents: mx.array, dtype: mx.Dtype) -> mx.array:
        """Append a level of w nodes; returns the mask [w, E] of type `dtype`.

        parents: [w] indices into the level before, as in `Expander.expand`.
        """
        own = additive(mx.eye(parents.shape[0]) > 0, dtype)
        above = [] if self._mask is None else [mx.take(self._mask, parents, axis=0)]
        self._mask = mx.concatenate([*above, own], axis=1)
        return self._mask
