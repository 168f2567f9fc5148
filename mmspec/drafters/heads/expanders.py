"""Expanders for heads, which return logits for one level of drafted tokens after another.

They implement `tree_drafting.Expander`, as `TailExpander` does for heads with a cached layer.
`base` is the target: it embeds tokens and projects features [w, H] to logits [w, V].

Shape letters: w nodes expanded at once, E expanded so far, K predicted positions, V vocabulary, H
width.
"""

from collections.abc import Sequence
from typing import Generic

from mmspec.decoding.contract import HiddenStates
from mmspec.decoding.ensemble import parent_rows
from mmspec.decoding.formulas import sigmoid
from mmspec.decoding.framework import Framework
from mmspec.drafters.heads.block import BlockModules
from mmspec.drafters.heads.modules import Succeed
from mmspec.ground.arrays import A, Map


class BlockExpander(Generic[A]):
    """Medusa, FLASH and DFlash: predicts all positions at once, whatever tokens are drafted."""

    def __init__(self, framework: Framework[A], features: A, project: Map[A]) -> None:
        """features: [K, H], one for each predicted position."""
        self._framework = framework
        self.rows = project(features)
        self._level = 0

    def root(self) -> A:
        """Logits [1, V] of the token after the sequence."""
        return self.rows[:1]

    def expand(self, tokens: A, parents: A | None) -> A:  # noqa: ARG002
        """Logits [w, V] of the next position, the same after every node."""
        self._level += 1
        row = self.rows[self._level : self._level + 1]
        same: A = self._framework.xp.broadcast_to(row, (len(tokens), row.shape[1]))
        return same


class SuccessiveExpander(Generic[A]):
    """Hydra: one hidden state, and a module per position that also reads the tokens before it."""

    def __init__(
        self,
        framework: Framework[A],
        base: HiddenStates[A],
        heads: Sequence[Succeed[A]],
        state: A,
        last: A,
    ) -> None:
        """state: hidden state [1, H]. last: embedding [1, H] of the token that follows it."""
        self._framework, self._base = framework, base
        self._heads, self._state = iter(heads), state
        self._inputs = framework.concat([state, last], -1)

    def root(self) -> A:
        """Logits [1, V] of the token after the sequence."""
        return self._base.project(next(self._heads)(self._state, self._inputs))

    def expand(self, tokens: A, parents: A | None) -> A:
        """Logits [w, V] of the token after each of w nodes of the next level."""
        inputs = parent_rows(self._framework, self._inputs, parents)
        self._inputs = self._framework.concat([inputs, self._base.embed(tokens)], -1)
        return self._base.project(next(self._heads)(self._state, self._inputs))


class MarkovExpander(Generic[A]):
    """DSpark: the rows of a block, each corrected by the drafted token before it."""

    def __init__(self, modules: BlockModules[A], features: A, rows: A, anchor: A) -> None:
        """features: [K, H] and their logits, rows [K, d].  anchor: [1] id of the token before."""
        assert modules.markov
        self._modules, self._markov = modules, modules.markov
        self._features, self._rows, self._anchor = features, rows, anchor
        self._level = 0
        self._state: A | None = None

    def root(self) -> A:
        """Logits [1, V] of the token after the sequence."""
        return self._correct(self._anchor)

    def expand(self, tokens: A, parents: A | None) -> A:
        """Logits [w, V] of the next position after each of w nodes."""
        if self._state is not None:
            self._state = parent_rows(self._modules.framework, self._state, parents)
        return self._correct(tokens)

    def confidence(self, ids: A) -> list[A]:
        """The chance [n] of each token of a chain by the confidence head, if there is one."""
        modules = self._modules
        if modules.confidence is None:
            return []
        x = self._features[: len(ids)]
        if modules.options.confidence_head_with_markov:
            before = modules.framework.concat([self._anchor, ids[:-1]], 0)
            embeddings = modules.framework.pick(self._markov.embedding, before)
            x = modules.framework.concat([x, embeddings], -1)
        return [sigmoid(modules.framework.xp, modules.confidence(x))[:, 0]]

    def _correct(self, tokens: A) -> A:
        framework, level = self._modules.framework, self._level
        row, feature = (
            framework.xp.broadcast_to(rows[level : level + 1], (len(tokens), rows.shape[1]))
            for rows in (self._rows, self._features)
        )
        embeddings = framework.pick(self._markov.embedding, tokens)
        correction, self._state = self._markov.correct(embeddings, feature, self._state)
        self._level += 1
        return self._modules.spread(row + correction)
