"""Drafts with a model that is fed the drafted tokens; see `tree_drafting.Expander`.

Shape letters: R branches, w nodes expanded at once, E expanded so far, V vocabulary, H width.
"""

from typing import Generic, Protocol

from mmspec.ground.arrays import A, Map


class DraftTail(Protocol[A]):
    """Cache columns for the nodes of one draft, after those of the sequence."""

    def feed(self, x: A, parents: A | None) -> A:
        """Feed the embeddings x [w, H] of a level's nodes to every branch; x may be overwritten.

        A node stands one position after its parent and attends to the sequence, its ancestors and
        itself. parents: [w] as in `Expander.expand`. Returns the last layer's outputs [R * w, H],
        branch by branch.
        """


class EnsembleExpander(Generic[A]):
    """Implements `tree_drafting.Expander`: feeds the same nodes to all branches."""

    def __init__(self, tail: DraftTail[A], last: A, embed: Map[A], project: Map[A]) -> None:
        """last: the branches' outputs [R, H] at the last column of the sequence.

        embed: function from ids [w] to embeddings [w, H]. project: function from outputs [R * w, H]
        to the logits [w, V] of the branches' mixture.
        """
        self._tail, self._last = tail, last
        self._embed, self._project = embed, project

    def root(self) -> A:
        """Logits [1, V] of the token after the sequence."""
        return self._project(self._last)

    def expand(self, tokens: A, parents: A | None) -> A:
        """Logits [w, V] of the token after each of w nodes of the next level."""
        return self._project(self._tail.feed(self._embed(tokens), parents))
