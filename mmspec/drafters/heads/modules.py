"""The modules that heads are built from.

Shape letters: n rows, H width, N visual positions, C queries, K predicted positions, I inputs, c
captured layers, d tokens that an EAGLE-3 head can draft, V vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol

from mmspec.checkpoints.eagle3_config import Eagle3
from mmspec.checkpoints.head_config import VIEW_QUERIES, HeadConfig
from mmspec.checkpoints.head_manifest import LAYER, VIEW, VIEW_FUSION
from mmspec.checkpoints.mtp import EMBEDDING_NORM, STATES_NORM
from mmspec.decoding.framework import Framework
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Enter, Map, behind_norm

Expand = Callable[[A, int], A]
"""Function from a state [1, H] and a number n to features [n, H] of the first n positions."""
Succeed = Callable[[A, A], A]
"""Function from a state [1, H] and inputs [n, I] to features [n, H]; the inputs are the state and
later tokens' embeddings, joined.
"""


def compressor(parts: Parts[A], eps: float) -> Map[A]:
    """Function from an image's hidden states [N, H] to latents [C, H] (FLASH, section 3.2).

    They are softmax(A norm(F)^T / sqrt(H)) F with the states F and learned queries A [C, H].
    """
    framework, queries = parts.framework, parts.tensor("compressor.queries")
    norm = parts.norm("compressor.norm", eps)

    def compress(states: A) -> A:
        scores = queries @ norm(states).T / states.shape[-1] ** 0.5
        return framework.softmax(scores) @ states

    return compress


def image_views(parts: Parts[A], *, bias: bool) -> Map[A]:
    """Function from an image's embeddings [N, H] to vectors [C, H] (ViSpec).

    Learned queries [C, heads, D] of several heads attend to the embeddings.
    """
    framework, xp = parts.framework, parts.framework.xp
    queries = parts.tensor(VIEW_QUERIES)
    keys, values = (parts.linear(f"{VIEW}.{part}_proj", bias=bias) for part in "kv")
    output = parts.linear(f"{VIEW}.o_proj", bias=False)

    def heads(rows: A) -> A:
        parts: A = xp.moveaxis(xp.reshape(rows, (-1, *queries.shape[1:])), 0, 1)
        return parts

    def view(embeddings: A) -> A:
        scores = heads(queries) @ xp.moveaxis(heads(keys(embeddings)), 1, 2)
        shares = framework.softmax(scores / queries.shape[-1] ** 0.5)
        vectors = xp.moveaxis(shares @ heads(values(embeddings)), 0, 1)
        return output(xp.reshape(vectors, (len(queries), -1)))

    return view


def expansion(parts: Parts[A], *paths: str) -> Expand[A]:
    """Features of a state x, each x + silu(W_i x + b_i) (Medusa, Cai et al. 2024, eq. 1)."""
    framework, linear = parts.framework, parts.linear(*paths)

    def expand(x: A, count: int) -> A:
        blocks = framework.xp.reshape(linear(x), (-1, x.shape[-1]))
        return x + framework.silu(blocks[:count])

    return expand


def successor(parts: Parts[A], path: str) -> Succeed[A]:
    """One module of a Hydra head, which reads the tokens before it (Ankner et al. 2024, eq. 2)."""
    silu = parts.framework.silu
    first, second = (parts.linear(f"{path}.linear_{n}") for n in (1, 2))
    return lambda state, inputs: state + second(silu(first(inputs)))


AddImages = Callable[[A, A], A]
"""Function from a state [1, H] and the embeddings [N, H] of all images to the new state [1, H]."""


def image_mean(parts: Parts[A]) -> AddImages[A]:
    """Function that adds a linear map of the images' mean embedding to the state."""
    xp, linear = parts.framework.xp, parts.linear("vision", bias=False)
    return lambda state, images: state + linear(xp.mean(images, axis=0, keepdims=True))


class Modules(Protocol[A]):
    """The modules of any kind of head."""

    framework: Framework[A]


class LayerModules(Generic[A]):
    """The modules of EAGLE, MSD and FLASH, which have a decoder layer."""

    def __init__(self, parts: Parts[A], config: HeadConfig, text: TextConfig) -> None:
        """text: the sizes of the decoder layer."""
        self.framework, eps = parts.framework, text.rms_norm_eps
        self.planes = bool(text.rotary_axes)
        """True if the layer's positions are time, row and column (M-RoPE)."""
        self._fusion = parts.linear("fc", bias=config.bias)
        path = f"{LAYER}.input_layernorm"
        norm = parts.norm(path, eps) if config.input_norm else lambda x: x
        self.layer = parts.layer(text, behind_norm(norm))
        has_compressor = config.kind == "flash" and config.queries
        self.compressor = compressor(parts, eps) if has_compressor else None
        slots = [f"slots.{i}" for i in range(config.slots)]
        self.expansion = expansion(parts, *slots) if slots else None

    def fuse(self, embeddings: A, states: A) -> A:
        """The layer's input [n, H] from embeddings [n, H] and preceding states [n, H]."""
        return self._fusion(self.framework.concat([embeddings, states], -1))


class MtpModules(LayerModules[A]):
    """The modules of Qwen3.5's own drafter, which normalises all that it reads and returns."""

    def __init__(self, parts: Parts[A], config: HeadConfig, text: TextConfig) -> None:
        """text: the sizes of the decoder layer."""
        super().__init__(parts, config, text)
        self._embedding_norm, self._states_norm, self.norm = (
            parts.norm(path, text.rms_norm_eps) for path in (EMBEDDING_NORM, STATES_NORM, "norm")
        )

    def fuse(self, embeddings: A, states: A) -> A:
        """The layer's input [n, H] from embeddings [n, H] and preceding states [n, H]."""
        return super().fuse(self._embedding_norm(embeddings), self._states_norm(states))

    def follow(self, embeddings: A, features: A) -> A:
        """The layer's input [n, H] from embeddings [n, H] and its own outputs [n, H] before."""
        return self.fuse(embeddings, self.norm(features))


class ViSpecModules(LayerModules[A]):
    """The modules of ViSpec: an image is a few vectors, the last of which is joined to states."""

    def __init__(self, parts: Parts[A], config: HeadConfig, text: TextConfig) -> None:
        """text: the sizes of the decoder layer."""
        super().__init__(parts, config, text)
        self.views = image_views(parts, bias=text.qkv_bias)
        self._join = parts.linear(VIEW_FUSION, bias=config.bias)

    def join(self, states: A, view: A | None) -> A:
        """States [n, H] that have seen an image's last vector [1, H]; None: there is no image."""
        xp = self.framework.xp
        image = xp.zeros_like(states) if view is None else xp.broadcast_to(view, states.shape)
        return self._join(self.framework.concat([states, image], -1))


class SlotModules(Generic[A]):
    """The modules of Medusa and Hydra, which have no decoder layer."""

    def __init__(self, parts: Parts[A], config: HeadConfig) -> None:
        self.framework = parts.framework
        paths = [f"heads.{i}" for i in range(config.slots)]
        self.add_images: AddImages[A] | None = None
        self.expansion: Expand[A] | None = None
        self.successors: list[Succeed[A]] = []
        if config.vision == "mean":
            self.add_images = image_mean(parts)
        if config.kind == "medusa":
            self.expansion = expansion(parts, *(f"{path}.linear" for path in paths))
        else:
            self.successors = [successor(parts, path) for path in paths]


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
    framework.settle(has_place)  # another thread may decode

    def spread(logits: A) -> A:
        everywhere: A = xp.where(has_place, xp.take(logits, place_of, axis=-1), -xp.inf)
        return everywhere

    return spread


class Eagle3Modules(Generic[A]):
    """The modules of an EAGLE-3 head (Li et al. 2025, 2503.01840) with 3.1's norms."""

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
