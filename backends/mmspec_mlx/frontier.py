"""A drafter's branches, asked what follows every node of a tree.

Shape letters: R branches, w nodes expanded at once, E expanded so far, V vocabulary, H width.
"""

from collections.abc import Callable, Sequence

import mlx.core as mx

from mmspec_mlx import host
from mmspec_mlx.cache import Cache
from mmspec_mlx.columns import Columns
from mmspec_mlx.growth import Lineage
from mmspec_mlx.llama import Llama


class Branches:
    """Implements `mmspec.growth.Frontier`: nodes are fed to every row, in columns of their own.

    The columns lie behind the committed ones and are given up with the tree.
    """

    def __init__(
        self,
        llama: Llama,
        cache: Cache,
        columns: Columns,
        starts: Sequence[int],
        end: int,
        last: mx.array,
        said: Callable[[mx.array], mx.array],
    ) -> None:
        """Start behind `end` columns, which are all fed.

        starts: [R] the position of the next token in each row.  last: [R, 1, H] hidden states at
        the last column.  said: hidden states [R, w, H] to mixtures [w, V].
        """
        self._llama, self._cache, self._said, self._last = llama, cache, said, last
        self._columns, self._starts = columns, starts
        self._committed = self._end = end
        self._level = 0
        self._lineage = Lineage()

    def root(self) -> mx.array:
        """Probabilities [1, V] of the token after the sequence."""
        return self._said(self._last)

    def expand(self, tokens: mx.array, parents: mx.array) -> mx.array:
        """Probabilities [w, V] of what follows nodes of the next level."""
        # The device starts on these tokens while this level's operations are listed.
        host.start(tokens)
        rows, count = len(self._starts), tokens.shape[0]
        x = self._llama.embedding.rows(tokens)
        x = mx.broadcast_to(x, (rows, *x.shape))
        positions = [start + self._level for start in self._starts]
        turn = self._llama.rotary.same(positions, count)
        mask = self._columns.behind(self._committed, self._lineage.add(parents, x.dtype))
        at, self._end, self._level = self._end, self._end + count, self._level + 1
        return self._said(self._llama.feed(x, self._cache, at, turn, mask))
