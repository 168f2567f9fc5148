"""The modules of an EAGLE-3 head (Li et al. 2025, 2503.01840) with 3.1's norms.

Shape letters: n rows, H width, c captured layers, d tokens that the head can draft, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from mmspec.checkpoints.eagle3_config import Eagle3
from mmspec.checkpoints.head_manifest import LAYER
from mmspec.decoding.framework import Framework
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Map


@dataclass(frozen=True, slots=True)
class BothNormed(Generic[A]):
    """Implements `Enter`: attention reads embedding and states side by side, each normalised."""

    framework: Framework[A]
    embedding_norm: Map[A]
    states_norm: Map[A]
    before_residual: bool
    """True if attention's output is added to the normalised states."""

    def __call__(self, x: A) -> tuple[A, A]:
        """What attention reads [..., 2 H] of x [..., 2 H], and the states [..., H] to add to."""
        embeddings, states = self.framework.split(x, 2)
        normed = self.states_norm(states)
        both = self.framework.concat([self.embedding_norm(embeddings), normed], -1)
        return both, normed if self.before_residual else states


class DraftVocabulary(Generic[A]):
    """Puts logits of the head's own vocabulary [n, d] at the target's ids [n, V]."""

    def __init__(self, framework: Framework[A], ids: Sequence[int], vocabulary: int) -> None:
        """ids: [d] the target's id of each token.  vocabulary: V."""
        places = {token: place for place, token in enumerate(ids)}
        tokens, self._xp = range(vocabulary), framework.xp
        self._places = framework.integers([places.get(token, 0) for token in tokens])
        drafted: Any = framework.integers([token in places for token in tokens])
        self._drafted = drafted > 0

    def __call__(self, logits: A) -> A:
        """Logits [n, V], -inf for a token that the head cannot draft."""
        spread = self._xp.take(logits, self._places, axis=-1)
        chosen: A = self._xp.where(self._drafted, spread, -self._xp.inf)
        return chosen


class Fused(Generic[A]):
    """The modules of an EAGLE-3 head."""

    def __init__(
        self,
        parts: Parts[A],
        options: Eagle3,
        text: TextConfig,
        draft_ids: Sequence[int] | None,
        image_id: int,
    ) -> None:
        """text: the layer's sizes.  draft_ids: see `read_draft_ids`.  image_id: of images."""
        framework, eps = parts.framework, text.rms_norm_eps
        self.framework, self._options = framework, options
        self._concat = framework.concat
        self._normed = _states_norm(parts, options, eps)
        self._fusion = parts.linear("fc", bias=False)
        enter = BothNormed(
            framework,
            parts.norm(f"{LAYER}.input_layernorm", eps),
            parts.norm(f"{LAYER}.hidden_norm", eps),
            options.norm_before_residual,
        )
        self.layer = parts.layer(text, enter)
        self._norm = parts.norm("norm", eps)
        self._head = parts.linear("lm_head", bias=False)
        self._spread: Map[A] = lambda logits: logits
        if draft_ids is not None:
            self._spread = DraftVocabulary(framework, draft_ids, text.vocab_size)
        self.image_id = image_id
        self.planes = bool(text.rotary_axes)
        """True if the layer's positions are time, row and column (M-RoPE)."""

    def pair(self, embeddings: A, captured: A) -> A:
        """The layer's input [n, 2 H] from embeddings [n, H] and captured states [n, c H]."""
        return self._concat([embeddings, self._fusion(self._normed(captured))], -1)

    def fuse(self, embeddings: A, features: A) -> A:
        """The layer's input [n, 2 H] from embeddings [n, H] and its outputs [n, H] before them."""
        read = self._norm(features) if self._options.norm_output else features
        return self._concat([embeddings, read], -1)

    def project(self, features: A) -> A:
        """Logits [n, V] of the layer's outputs [n, H]."""
        return self._spread(self._head(self._norm(features)))


def _states_norm(parts: Parts[A], options: Eagle3, eps: float) -> Map[A]:
    """The norm of captured states [n, c H]: one over all, one for each layer, or none."""
    if options.norm_before_fc:
        return parts.norm("input_norm", eps)
    if not options.fc_norm:
        return lambda states: states
    norms = [parts.norm(f"fc_norm.{index}", eps) for index in range(options.count)]
    framework = parts.framework

    def normed(states: A) -> A:
        layers = framework.split(states, len(norms))
        return framework.concat([norm(x) for norm, x in zip(norms, layers, strict=True)], -1)

    return normed
