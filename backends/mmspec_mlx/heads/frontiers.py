"""Heads asked for one level of drafted tokens after another; see `mmspec.growth.Frontier`.

A chain is a tree that is one node wide, whose parents need not be told. Levels are returned as
`said` makes them of features [w, H]: logits for a chain, probabilities for a tree.

Shape letters: w nodes expanded at once, E expanded so far, K slots, V vocabulary, H width.
"""

from collections.abc import Callable, Sequence

import mlx.core as mx

from mmspec_mlx import host
from mmspec_mlx.cache import Cache
from mmspec_mlx.growth import Lineage
from mmspec_mlx.heads.modules import Successor
from mmspec_mlx.llama import Decoder, behind

Said = Callable[[mx.array], mx.array]
"""From features [w, H] to rows [w, V]."""
Embed = Callable[[mx.array], mx.array]
"""From ids [w] to the target's embeddings [w, H]."""
Fuse = Callable[[mx.array, mx.array], mx.array]
"""From embeddings and features [w, H] to what the layer is fed, [w, H]."""


def of(rows: mx.array, parents: mx.array | None) -> mx.array:
    """Each node's parent's row: rows [E, H] and parents [w] give [w, H]."""
    return rows if parents is None else mx.take(rows, parents, axis=0)


class Recurrent:
    """EAGLE's way: a drafted token's feature is fed on in place of the target's hidden state."""

    def __init__(
        self,
        decoder: Decoder,
        cache: Cache,
        columns: int,
        feature: mx.array,
        fuse: Fuse,
        embed: Embed,
        said: Said,
    ) -> None:
        """Start behind `columns` of the cache, the last of which gave `feature` [1, H]."""
        self._decoder, self._cache, self._features = decoder, cache, feature
        self._fuse, self._embed, self._said = fuse, embed, said
        self._columns = self._end = self._position = columns
        self._lineage = Lineage()

    def root(self) -> mx.array:
        """Rows [1, V] of the token after the sequence."""
        return self._said(self._features)

    def expand(self, tokens: mx.array, parents: mx.array | None) -> mx.array:
        """Rows [w, V] of what follows nodes of the next level."""
        # The device starts on these tokens while this level's operations are listed.
        host.start(tokens)
        x = self._fuse(self._embed(tokens), of(self._features, parents))
        mask = None
        if parents is not None:
            mask = behind(self._columns, self._lineage.add(parents, x.dtype))
        turn = self._decoder.rotary.same([self._position], len(x))
        x = mx.expand_dims(x, 0)
        self._features = self._decoder.feed(x, self._cache, self._end, turn, mask)[0]
        self._end, self._position = self._end + x.shape[1], self._position + 1
        return self._said(self._features)


class Block:
    """Medusa's and FLASH's way: all places at once, none knowing the tokens before it."""

    def __init__(self, features: mx.array, said: Said) -> None:
        """Take the features [K, H] of as many places as are asked for."""
        self._rows = said(features)
        self._level = 0

    def root(self) -> mx.array:
        """Rows [1, V] of the token after the sequence."""
        return self._rows[:1]

    def expand(self, tokens: mx.array, parents: mx.array | None) -> mx.array:  # noqa: ARG002
        """Rows [w, V] of the next place, the same for every node."""
        self._level += 1
        row = self._rows[self._level : self._level + 1]
        return mx.broadcast_to(row, (len(tokens), row.shape[1]))


class Successive:
    """Hydra's way: one hidden state, and a head per place that knows the tokens before it."""

    def __init__(
        self, heads: Sequence[Successor], state: mx.array, last: mx.array, embed: Embed, said: Said
    ) -> None:
        """Start from a state [1, H] and the embedding [1, H] of the token that came of it."""
        self._heads = iter(heads)
        self._state, self._known = state, mx.concatenate([state, last], axis=-1)
        self._embed, self._said = embed, said

    def root(self) -> mx.array:
        """Rows [1, V] of the token after the sequence."""
        return self._said(next(self._heads)(self._state, self._known))

    def expand(self, tokens: mx.array, parents: mx.array | None) -> mx.array:
        """Rows [w, V] of what follows nodes of the next level."""
        host.start(tokens)
        known = of(self._known, parents)
        self._known = mx.concatenate([known, self._embed(tokens)], axis=-1)
        return self._said(next(self._heads)(self._state, self._known))
