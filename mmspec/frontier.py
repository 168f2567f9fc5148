"""What a drafter that feeds drafted tokens says of them; see `mmspec.growth.Frontier`.

Shape letters: R branches, w nodes expanded at once, E expanded so far, V vocabulary, H width.
"""

from typing import Generic, Protocol

from mmspec.arrays import A, Map


class Tail(Protocol[A]):
    """Columns of a cache behind the committed ones, for a draft's nodes; given up with it."""

    def feed(self, x: A, parents: A | None) -> A:
        """Feed every branch the nodes x [w, H] of the next level, which may be overwritten.

        A node stands one position after its parent and sees what is committed, its ancestors and
        itself.  parents: [w] as `Frontier.expand` is given them; None where every level is one
        node, which sees all before it.
        Returns the last layer's outputs [R * w, H], branch by branch.
        """
        ...


class Branches(Generic[A]):
    """Implements `mmspec.growth.Frontier`: all branches, asked about the same nodes."""

    def __init__(self, tail: Tail[A], last: A, embed: Map[A], said: Map[A]) -> None:
        """Start behind the column at which the branches' outputs are `last` [R, H].

        embed: ids [w] to embeddings [w, H].  said: outputs [R * w, H] to mixtures [w, V].
        """
        self._tail, self._last = tail, last
        self._embed, self._said = embed, said

    def root(self) -> A:
        """Probabilities [1, V] of the token after the sequence."""
        return self._said(self._last)

    def expand(self, tokens: A, parents: A) -> A:
        """Probabilities [w, V] of what follows nodes of the next level."""
        return self._said(self._tail.feed(self._embed(tokens), parents))
