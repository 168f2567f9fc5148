"""The modules of an EAGLE-3 head (Li et al. 2025, 2503.01840) with 3.1's norms.

Shape letters: n rows, H width, c captured layers, d tokens that the head can draft, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, Generic

from mmspec.checkpoints.eagle3_config import Eagle3
from mmspec.checkpoints.head_manifest import LAYER
from mmspec.decoding.framework import Framework
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Enter, Map


def enter_pairs(parts: Parts[A], eps: float, *, before_residual: bool) -> Enter[A]:
    """Lets attention read embedding and states side by side, each normalised: [..., 2 H].

    before_residual: true if attention's output is added to the normalised states.
    """
    framework = parts.framework
    embedding_norm = parts.norm(f"{LAYER}.input_layernorm", eps)
    states_norm = parts.norm(f"{LAYER}.hidden_norm", eps)

    def enter(x: A) -> tuple[A, A]:
        embeddings, states = framework.split(x, 2)
        rows = states_norm(states)
        pairs = framework.concat([embedding_norm(embeddings), rows], -1)
        return pairs, rows if before_residual else states

    return enter


def spread_over(framework: Framework[A], ids: Sequence[int] | None, vocabulary: int) -> Map[A]:
    """Function that puts logits of the head's own tokens [n, d] at the target's ids [n, V].

    ids: [d] the target's id of each; None if they are the same.  Others get -inf.
    """
    if ids is None:
        return lambda logits: logits
    places, xp = {token: place for place, token in enumerate(ids)}, framework.xp
    place_of = framework.integers([places.get(token, 0) for token in range(vocabulary)])
    flags: Any = framework.integers([token in places for token in range(vocabulary)])
    has_place = flags > 0

    def spread(logits: A) -> A:
        everywhere: A = xp.where(has_place, xp.take(logits, place_of, axis=-1), -xp.inf)
        return everywhere

    return spread


class Eagle3Modules(Generic[A]):
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
        self._states_norm = _states_norm(parts, options, eps)
        self._fusion = parts.linear("fc", bias=False)
        enter = enter_pairs(parts, eps, before_residual=options.norm_before_residual)
        self.layer = parts.layer(text, enter)
        self._norm = parts.norm("norm", eps)
        self._head = parts.linear("lm_head", bias=False)
        self._spread = spread_over(framework, draft_ids, text.vocab_size)
        self.image_id = image_id
        self.planes = bool(text.rotary_axes)
        """True if the layer's positions are time, row and column (M-RoPE)."""

    def pair(self, embeddings: A, states: A) -> A:
        """The layer's input [n, 2 H] from embeddings [n, H] and captured states [n, c H]."""
        return self._concat([embeddings, self._fusion(self._states_norm(states))], -1)

    def fuse(self, embeddings: A, features: A) -> A:
        """The layer's input [n, 2 H] from embeddings [n, H] and its outputs [n, H] before them."""
        states = self._norm(features) if self._options.norm_output else features
        return self._concat([embeddings, states], -1)

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

    def normalise(states: A) -> A:
        layers = framework.split(states, len(norms))
        return framework.concat([norm(x) for norm, x in zip(norms, layers, strict=True)], -1)

    return normalise
