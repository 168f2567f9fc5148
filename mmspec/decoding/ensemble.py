"""Drafts with the mixture of a draft model's branches (IbED, section 3.1).

Shape letters: R branches, w nodes expanded at once, E nodes of all levels so far, V vocabulary of
the target, v ids that both models have, H width.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol

from mmspec.decoding import formulas
from mmspec.decoding.framework import Framework
from mmspec.decoding.language import Language
from mmspec.families.tower import cast
from mmspec.ground.arrays import A, Map

Fuse = Callable[[A, A], A]
"""Function that joins embeddings [w, H] and features [w, H] to the layer's input."""


class Ensemble(Generic[A]):
    """Averages the probabilities of all branches."""

    def __init__(self, language: Language[A], branches: int, vocabulary: int) -> None:
        """vocabulary: V; tokens that only the draft model has are ignored."""
        self._language, self._branches = language, branches
        self._common = min(vocabulary, language.config.vocab_size)
        self._missing = vocabulary - self._common
        framework = language.framework
        self._mix = framework.compile(partial(_mixture, framework, branches))

    def logits(self, weights: A, record: list[A], last: A) -> A:
        """The mixture's logits [w, v] at outputs [R * w, H].

        weights: [R].  record: with several branches, their probabilities [R * w, v] are appended.
        """
        outputs: Any = self._language.project(self._language.states(last))
        logits: A = outputs[..., : self._common]
        if self._branches > 1:
            q, logits = self._mix(weights, logits)
            record.append(q)
        return logits

    def pad(self, q: A) -> A:
        """Append the probability 0 of ids that only the target has: [..., v] become [..., V]."""
        if not self._missing:
            return q
        framework, shape = self._language.framework, (*q.shape[:-1], self._missing)
        return framework.concat([q, framework.zeros(shape, dtype=framework.xp.float32)], -1)


def _mixture(framework: Framework[A], branches: int, weights: A, logits: A) -> tuple[A, A]:
    q: Any = framework.softmax(cast(framework.xp, logits, framework.xp.float32))
    mixture = formulas.mix(weights, q.reshape(branches, -1))
    return q, framework.xp.log(mixture.reshape(-1, q.shape[-1]))


class DraftTail(Protocol[A]):
    """Cache columns for the nodes of one draft, after those of the sequence."""

    def feed(self, x: A, parents: A | None) -> A:
        """Feed the embeddings x [w, H] of a level's nodes to every branch; x may be overwritten.

        A node stands one position after its parent and attends to the sequence, its ancestors and
        itself. parents: [w] as in `Expander.expand`. Returns the last layer's outputs [R * w, H],
        branch by branch.
        """


class Lineage(Generic[A]):
    """The attention masks of a tree that is drafted level by level.

    A node sees its ancestors and itself. The masks cover the tree's own columns, which follow the
    committed ones.
    """

    def __init__(self, framework: Framework[A], mask_of: Callable[[Any], A]) -> None:
        """mask_of: function from booleans, true where a row sees a column, to a mask to add."""
        self._framework, self._mask_of = framework, mask_of
        self._mask: A | None = None

    def add(self, parents: A) -> A:
        """Append a level of w nodes; returns the mask [w, E] of the E nodes so far.

        parents: [w] indices into the level before, as in `Expander.expand`.
        """
        number: Any = self._framework.count(len(parents))
        level = self._mask_of(number[:, None] == number)
        above = [] if self._mask is None else [self._framework.pick(self._mask, parents)]
        self._mask = self._framework.concat([*above, level], 1)
        return self._mask


class TailExpander(Generic[A]):
    """Implements `tree_drafting.Expander`: feeds drafted nodes to a tail."""

    def __init__(
        self,
        framework: Framework[A],
        tail: DraftTail[A],
        last: A,
        embed: Map[A],
        project: Map[A],
        fuse: Fuse[A] | None = None,
    ) -> None:
        """last: the outputs [R, H] at the last column of the sequence, one for each branch.

        embed: function from ids [w] to embeddings [w, H]. project: function from outputs [R * w, H]
        to logits [w, V]. fuse: joins outputs to what is fed after them, in a head; None if
        embeddings alone are fed.
        """
        self._framework, self._tail, self._last = framework, tail, last
        self._embed, self._project, self._fuse = embed, project, fuse

    def root(self) -> A:
        """Logits [1, V] of the token after the sequence."""
        return self._project(self._last)

    def expand(self, tokens: A, parents: A | None) -> A:
        """Logits [w, V] of the token after each of w nodes of the next level."""
        x = self._embed(tokens)
        if self._fuse:
            x = self._fuse(x, parent_rows(self._framework, self._last, parents))
        self._last = self._tail.feed(x, parents)
        return self._project(self._last)


def parent_rows(framework: Framework[A], rows: A, parents: A | None) -> A:
    """The rows [w, H] of the nodes' parents, from rows [E, H] and indices `parents` [w]."""
    return rows if parents is None else framework.pick(rows, parents)
