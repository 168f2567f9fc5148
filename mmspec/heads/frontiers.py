"""Heads asked for one level of drafted tokens after another; see `mmspec.growth.Frontier`.

A chain is a tree that is one node wide, whose parents need not be told. Levels are returned as
`said` makes them of features [w, H]: logits for a chain, probabilities for a tree.

Shape letters: w nodes expanded at once, E expanded so far, K slots, V vocabulary, H width.
"""

from collections.abc import Callable, Sequence
from typing import Generic

from mmspec.arrays import A, Map
from mmspec.frontier import Tail
from mmspec.heads.modules import Successor
from mmspec.heads.seam import Framework

Fuse = Callable[[A, A], A]
"""From embeddings and features [w, H] to what the layer is fed, [w, H]."""


def of(framework: Framework[A], rows: A, parents: A | None) -> A:
    """Each node's parent's row: rows [E, H] and parents [w] give [w, H]."""
    return rows if parents is None else framework.pick(rows, parents)


class Recurrent(Generic[A]):
    """EAGLE's way: a drafted token's feature is fed on in place of the target's hidden state."""

    def __init__(
        self,
        framework: Framework[A],
        tail: Tail[A],
        feature: A,
        fuse: Fuse[A],
        embed: Map[A],
        said: Map[A],
    ) -> None:
        """Start behind the column that gave `feature` [1, H]; embed: ids to embeddings."""
        self._framework, self._tail, self._features = framework, tail, feature
        self._fuse, self._embed, self._said = fuse, embed, said

    def root(self) -> A:
        """Rows [1, V] of the token after the sequence."""
        return self._said(self._features)

    def expand(self, tokens: A, parents: A | None) -> A:
        """Rows [w, V] of what follows nodes of the next level."""
        x = self._fuse(self._embed(tokens), of(self._framework, self._features, parents))
        self._features = self._tail.feed(x, parents)
        return self._said(self._features)


class Block(Generic[A]):
    """Medusa's and FLASH's way: all places at once, none knowing the tokens before it."""

    def __init__(self, framework: Framework[A], features: A, said: Map[A]) -> None:
        """Take the features [K, H] of as many places as are asked for."""
        self._framework = framework
        self._rows = said(features)
        self._level = 0

    def root(self) -> A:
        """Rows [1, V] of the token after the sequence."""
        return self._rows[:1]

    def expand(self, tokens: A, parents: A | None) -> A:  # noqa: ARG002
        """Rows [w, V] of the next place, the same for every node."""
        self._level += 1
        row = self._rows[self._level : self._level + 1]
        same: A = self._framework.xp.broadcast_to(row, (len(tokens), row.shape[1]))
        return same


class Successive(Generic[A]):
    """Hydra's way: one hidden state, and a head per place that knows the tokens before it."""

    def __init__(
        self,
        framework: Framework[A],
        heads: Sequence[Successor[A]],
        state: A,
        last: A,
        embed: Map[A],
        said: Map[A],
    ) -> None:
        """Start from a state [1, H] and the embedding [1, H] of the token that came of it."""
        self._framework, self._heads, self._state = framework, iter(heads), state
        self._embed, self._said = embed, said
        self._known = framework.concat([state, last], -1)

    def root(self) -> A:
        """Rows [1, V] of the token after the sequence."""
        return self._said(next(self._heads)(self._state, self._known))

    def expand(self, tokens: A, parents: A | None) -> A:
        """Rows [w, V] of what follows nodes of the next level."""
        known = of(self._framework, self._known, parents)
        self._known = self._framework.concat([known, self._embed(tokens)], -1)
        return self._said(next(self._heads)(self._state, self._known))
