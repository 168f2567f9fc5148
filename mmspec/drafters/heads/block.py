"""The modules of a block drafter: DFlash, and DSpark with its Markov head.

Shape letters: n rows, w nodes, B block rows, H width, c captured layers, C columns that the rows of
a block see, d tokens that the head can draft, V vocabulary, r Markov rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np

from mmspec.checkpoints.block_config import SLIDING, BlockDraft
from mmspec.checkpoints.head_manifest import CONFIDENCE, MARKOV, OUTPUT
from mmspec.decoding.formulas import sigmoid
from mmspec.decoding.framework import Framework
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.drafters.heads.injected_layers import Sight
from mmspec.drafters.heads.modules import spread_over
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Map


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
    """[V, r]."""
    output: Map[A]
    """Function from [w, r] to a correction [w, d]."""
    gate: Map[A] | None = None
    """Function from [w, H + r] to gates [w, r]; None if the head is not gated."""
    joint: Map[A] | None = None
    """Function from [w, 2 r + H] to gate, candidate and output [w, 3 r]; None without a state."""

    def correct(self, embeddings: A, feature: A, state: A | None) -> tuple[A, A | None]:
        """The correction [w, d] of rows with features [w, H], and the state [w, r] after them.

        embeddings: [w, r] of the tokens before.  state: [w, r] after the rows before; None at
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
