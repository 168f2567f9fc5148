"""Computes a block drafter's context from the target's captured states, and its drafts.

Row j of the context is the target's state at column j; the block begins with the last column, whose
state does not exist yet.

Shape letters: n columns, r rows of context, B block rows, V vocabulary, H width.
"""

from functools import cached_property

import numpy as np

from mmspec.decoding.tree_drafting import Expander
from mmspec.drafters.heads.block import BlockModules, sights
from mmspec.drafters.heads.expanders import BlockExpander, MarkovExpander
from mmspec.drafters.heads.forwards import HeadForwards
from mmspec.drafters.heads.injected_layers import InjectedLayers
from mmspec.drafters.heads.packing import Outline, Span
from mmspec.ground.arrays import A, Positions


class BlockForwards(HeadForwards[BlockModules[A], A]):
    """DFlash and DSpark: one forward drafts a block over the states of several layers."""

    @cached_property
    def _layers(self) -> InjectedLayers[A]:
        return self._parts.layers()

    @cached_property
    def _masks(self) -> A:
        """Embeddings [B, H] of the mask's token."""
        options = self._parts.options
        return self._base.embed(
            self._framework.integers([options.mask_token_id] * options.block_size)
        )

    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Write the context of the columns from `start` up to `stop`."""
        runs = self._runs(outline, start, stop)
        with self._framework.inference():
            if runs:
                first = self._count(outline, start)
                self._layers.remember(self._context(runs), first, self._positions(runs))
            self._layers.settle()

    def _expander(self, outline: Outline, start: int, gamma: int) -> Expander:
        modules, last = self._parts, outline.columns - 1
        rows, runs = modules.options.rows_for(gamma), self._runs(outline, start, last)
        anchor = self._base.embeddings(last, last + 1)
        x = self._framework.concat([anchor, self._masks[: rows - 1]], 0)
        context = self._context(runs) if runs else x[:0]
        positions = np.concatenate([self._positions(runs), self._block(last, rows)], axis=1)
        first, count = self._count(outline, start), self._count(outline, last)
        by_layer = sights(modules.options, modules.text.num_hidden_layers, count, rows)
        outputs = self._layers.block(x, context, first, positions, by_layer)
        features = modules.norm(outputs)[rows - gamma :]
        project = modules.head or self._base.project
        if modules.markov is None:
            spread = modules.spread
            return BlockExpander(self._framework, features, lambda x: spread(project(x)))
        token = self._framework.integers(self._base.ids(last, last + 1))
        return MarkovExpander(modules, features, project(features), token)

    def _chances(self, expander: Expander, ids: A, keys: A) -> list[A]:
        if isinstance(expander, MarkovExpander):
            return expander.confidence(ids)
        assert isinstance(expander, BlockExpander)
        return [self._sampler.children(expander.rows, keys, 1)[0][:, 0]]

    def _runs(self, outline: Outline, start: int, stop: int) -> list[Span]:
        """The columns from `start` up to `stop` that are in the context."""
        if self._parts.options.image_context:
            return [(start, stop)] if start < stop else []
        return list(outline.text_runs(start, stop))

    def _count(self, outline: Outline, stop: int) -> int:
        """The rows of the context before column `stop`."""
        return sum(end - first for first, end in self._runs(outline, 0, stop))

    def _context(self, runs: list[Span]) -> A:
        states = self._framework.concat([self._base.layer_outputs(*run) for run in runs], 0)
        return self._parts.fuse(states)

    def _positions(self, runs: list[Span]) -> Positions:
        """Rotary positions [3, r] of the context in these columns."""
        has_planes = self._parts.text.rotary_axes
        positions = self._base.positions if has_planes else _text_positions
        return np.concatenate([_text_positions(0, 0), *(positions(*run) for run in runs)], axis=1)

    def _block(self, column: int, rows: int) -> Positions:
        """Rotary positions [3, B] of a block that begins at `column`."""
        first = self._positions([(column, column + 1)])
        return first + np.arange(rows)


def _text_positions(start: int, stop: int) -> Positions:
    """Rotary positions [3, n] of text: on each axis the number of the column."""
    return np.repeat(np.arange(start, stop)[None], 3, axis=0)
