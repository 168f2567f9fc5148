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
from mmspec.decoding.framework import Framework
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
