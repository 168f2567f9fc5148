"""Block drafters: DFlash, and DSpark with its Markov head.

One forward drafts a block over the target's captured states. Row j of its context is the state at
column j; the block begins with the last column, whose state does not exist yet.

Shape letters: n columns or rows, r rows of context, w nodes, B block rows, K predicted positions, H
width, c captured layers, C columns that the rows of a block see, d tokens that the head can draft,
V vocabulary, R Markov rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

import numpy as np

from mmspec.checkpoints.block_config import SLIDING, BlockDraft
from mmspec.checkpoints.head_manifest import CONFIDENCE, MARKOV, OUTPUT
from mmspec.decoding.ensemble import parent_rows
from mmspec.decoding.formulas import sigmoid
from mmspec.decoding.framework import Framework
from mmspec.decoding.tree_drafting import Expander
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.drafters.heads.forwards import BlockExpander, HeadForwards
from mmspec.drafters.heads.injected_layers import InjectedLayers, Sight
from mmspec.drafters.heads.modules import spread_over
from mmspec.drafters.heads.packing import Outline, Span
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Map, Positions


def sights(options: BlockDraft, layers: int, context: int, rows: int) -> list[Sight]:
    """What each layer of a head lets `rows` block rows see after `context` columns."""
    by_kind = {kind: _sight(options, kind, context, rows) for kind in {*options.layer_types, ""}}
    return [by_kind[kind] for kind in options.layer_types or [""] * layers]


def _sight(options: BlockDraft, kind: str, context: int, rows: int) -> Sight:
    slides, window = kind == SLIDING, options.sliding_window
    causal = options.is_causal or (slides and not options.sliding_window_non_causal)
    first = max(0, context - window + (not options.window_before_block)) if slides else 0
    row, column = np.arange(context, context + rows)[:, None], np.arange(first, context + rows)
    visible = (column <= row) if causal else np.full((rows, len(column)), True)
    if slides and not options.window_before_block:
        visible &= np.abs(row - column) < window
    return Sight(first, None if visible.all() else visible)


@dataclass(frozen=True, slots=True)
class Markov(Generic[A]):
    """Corrects a row's logits by the token before it (DSpark)."""

    framework: Framework[A]
    embedding: A
    """[V, R]."""
    output: Map[A]
    """Function from [w, R] to a correction [w, d]."""
    gate: Map[A] | None = None
    """Function from [w, H + R] to gates [w, R]; None if the head is not gated."""
    joint: Map[A] | None = None
    """Function from [w, 2 R + H] to gate, candidate and output [w, 3 R]; None without a state."""

    def correct(self, embeddings: A, feature: A, state: A | None) -> tuple[A, A | None]:
        """The correction [w, d] of rows with features [w, H], and the state [w, R] after them.

        embeddings: [w, R] of the tokens before.  state: [w, R] after the rows before; None at
        first.
        """
        xp, concat = self.framework.xp, self.framework.concat
        if self.joint is None:
            if self.gate:
                embeddings = sigmoid(xp, self.gate(concat([feature, embeddings], -1))) * embeddings
            return self.output(embeddings), None
        state = xp.zeros_like(embeddings) if state is None else state
        outputs: Any = self.joint(concat([state, embeddings, feature], -1))
        gate, candidate, output = self.framework.split(outputs, 3)
        gate = sigmoid(xp, gate)
        return self.output(xp.tanh(output)), gate * state + (1 - gate) * xp.tanh(candidate)


class BlockModules(Generic[A]):
    """The modules of a block drafter."""

    def __init__(
        self,
        parts: Parts[A],
        options: BlockDraft,
        text: TextConfig,
        draft_ids: Sequence[int] | None,
    ) -> None:
        """text: the sizes of the decoder layers.  draft_ids: see `read_draft_ids`."""
        framework, eps = parts.framework, text.rms_norm_eps
        self.framework, self.options, self.text = framework, options, text
        self._fusion = parts.linear("fc", bias=False)
        self._context_norm = parts.norm("hidden_norm", eps)
        self.layers = parts.injected_layers(text)
        self.norm = parts.norm("norm", eps)
        self.head: Map[A] | None = None
        if options.draft_vocab_size < text.vocab_size:
            self.head = parts.linear(OUTPUT.removesuffix(".weight"), bias=False)
        self.spread = spread_over(framework, draft_ids, text.vocab_size)
        self.markov = _markov(parts, options) if options.markov_rank else None
        self.confidence = parts.linear(CONFIDENCE) if options.enable_confidence_head else None
        """Function from features, and embeddings if it reads them, to the log-odds [w, 1] that
        the row's token is accepted; None without such a head."""

    def fuse(self, states: A) -> A:
        """The rows [n, H] that every layer reads of captured states [n, c H]."""
        return self._context_norm(self._fusion(states))


def _markov(parts: Parts[A], options: BlockDraft) -> Markov[A]:
    kind = options.markov_head_type
    return Markov(
        parts.framework,
        parts.tensor(f"{MARKOV}.markov_w1.weight"),
        parts.linear(f"{MARKOV}.markov_w2", bias=False),
        parts.linear(f"{MARKOV}.gate_proj") if kind == "gated" else None,
        parts.linear(f"{MARKOV}.joint_proj") if kind == "rnn" else None,
    )


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
