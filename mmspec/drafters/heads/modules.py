"""The modules that heads are built from.

Shape letters: n rows, H width, N visual positions, C queries, K predicted positions, I inputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from mmspec.checkpoints.head_config import VIEW_QUERIES, HeadConfig
from mmspec.checkpoints.head_manifest import LAYER, VIEW, VIEW_FUSION
from mmspec.checkpoints.mtp import EMBEDDING_NORM, STATES_NORM
from mmspec.decoding.framework import Framework
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Map, behind_norm


@dataclass(frozen=True, slots=True)
class Compressor(Generic[A]):
    """Learned queries that attend to an image's hidden states (FLASH, section 3.2)."""

    framework: Framework[A]
    queries: A
    """[C, H] the learned queries, one per latent."""
    norm: Map[A]

    def __call__(self, states: A) -> A:
        """Compress an image's states F [N, H] to latents [C, H]: softmax(A norm(F)^T / sqrt(H)) F.

        A are the learned queries.
        """
        scores = self.queries @ self.norm(states).T / states.shape[-1] ** 0.5
        return self.framework.softmax(scores) @ states


@dataclass(frozen=True, slots=True)
class ImageViews(Generic[A]):
    """Learned queries of several heads that attend to an image's embeddings (ViSpec)."""

    framework: Framework[A]
    queries: A
    """[C, heads, D] the learned queries, one per vector."""
    keys: Map[A]
    values: Map[A]
    output: Map[A]

    def __call__(self, embeddings: A) -> A:
        """Compress an image's embeddings [N, H] to vectors [C, H], one for each learned query."""
        xp, size = self.framework.xp, self.queries.shape[-1]
        queries, keys, values = (
            xp.moveaxis(xp.reshape(each, (-1, *self.queries.shape[1:])), 0, 1)
            for each in (self.queries, self.keys(embeddings), self.values(embeddings))
        )
        scores = queries @ xp.moveaxis(keys, 1, 2) / size**0.5
        attended = xp.moveaxis(self.framework.softmax(scores) @ values, 0, 1)
        return self.output(xp.reshape(attended, (len(self.queries), -1)))


@dataclass(frozen=True, slots=True)
class Expansion(Generic[A]):
    """K features of a state x, each x + silu(W_i x + b_i) (Medusa, Cai et al. 2024, eq. 1)."""

    framework: Framework[A]
    together: Map[A]
    """All W_i and b_i as one linear layer, [H, K * H]."""

    def __call__(self, x: A, count: int) -> A:
        """The first `count` features [count, H] of x [1, H]."""
        blocks = self.framework.xp.reshape(self.together(x), (-1, x.shape[-1]))
        return x + self.framework.silu(blocks[:count])


@dataclass(frozen=True, slots=True)
class Successor(Generic[A]):
    """One module of a Hydra head, which reads the tokens before it (Ankner et al. 2024, eq. 2)."""

    framework: Framework[A]
    first: Map[A]
    second: Map[A]

    def __call__(self, state: A, inputs: A) -> A:
        """Features [n, H]; inputs [n, I]: the state [1, H] and later tokens' embeddings joined."""
        return state + self.second(self.framework.silu(self.first(inputs)))


Sight = Callable[[A, A], A]
"""Function from a state [1, H] and the embeddings [N, H] of all images to the new state [1, H]."""


def mean(parts: Parts[A]) -> Sight[A]:
    """Function that adds a linear map of the images' mean embedding to the state."""
    xp, linear = parts.framework.xp, parts.linear("vision", bias=False)
    return lambda state, images: state + linear(xp.mean(images, axis=0, keepdims=True))


class Layered(Generic[A]):
    """The modules of EAGLE, MSD and FLASH, which have a decoder layer."""

    def __init__(self, parts: Parts[A], config: HeadConfig, text: TextConfig) -> None:
        """text: the sizes of the decoder layer."""
        self.framework, eps = parts.framework, text.rms_norm_eps
        self.planes = bool(text.rotary_axes)
        """True if the layer's positions are time, row and column (M-RoPE)."""
        self._fusion = parts.linear("fc", bias=config.bias)
        normed = config.input_norm
        norm = parts.norm(f"{LAYER}.input_layernorm", eps) if normed else lambda x: x
        self.layer = parts.layer(text, behind_norm(norm))
        self.compressor: Compressor[A] | None = None
        if config.kind == "flash" and config.queries:
            queries = parts.tensor("compressor.queries")
            scale = parts.norm("compressor.norm", eps)
            self.compressor = Compressor(self.framework, queries, scale)
        self.expansion: Expansion[A] | None = None
        if config.slots:
            slots = parts.linear(*(f"slots.{i}" for i in range(config.slots)))
            self.expansion = Expansion(self.framework, slots)

    def fuse(self, embeddings: A, states: A) -> A:
        """The layer's input [n, H] from embeddings [n, H] and preceding states [n, H]."""
        return self._fusion(self.framework.concat([embeddings, states], -1))


class Mtp(Layered[A]):
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


class Seeing(Layered[A]):
    """The modules of ViSpec: an image is a few vectors, the last of which is joined to states."""

    def __init__(self, parts: Parts[A], config: HeadConfig, text: TextConfig) -> None:
        """text: the sizes of the decoder layer."""
        super().__init__(parts, config, text)
        keys, values = (parts.linear(f"{VIEW}.{part}_proj", bias=text.qkv_bias) for part in "kv")
        output = parts.linear(f"{VIEW}.o_proj", bias=False)
        self.views = ImageViews(self.framework, parts.tensor(VIEW_QUERIES), keys, values, output)
        self._joined = parts.linear(VIEW_FUSION, bias=config.bias)

    def join(self, states: A, view: A | None) -> A:
        """States [n, H] that have seen an image's last vector [1, H]; None: there is no image."""
        xp = self.framework.xp
        image = xp.zeros_like(states) if view is None else xp.broadcast_to(view, states.shape)
        return self._joined(self.framework.concat([states, image], -1))


class Slotted(Generic[A]):
    """The modules of Medusa and Hydra, which have no decoder layer."""

    def __init__(self, parts: Parts[A], config: HeadConfig) -> None:
        self.framework = parts.framework
        paths = [f"heads.{i}" for i in range(config.slots)]
        self.sight: Sight[A] | None = mean(parts) if config.vision == "mean" else None
        self.expansion: Expansion[A] | None = None
        self.successors: list[Successor[A]] = []
        if config.kind == "medusa":
            together = parts.linear(*(f"{path}.linear" for path in paths))
            self.expansion = Expansion(self.framework, together)
        else:
            pairs = [[parts.linear(f"{path}.linear_{n}") for n in (1, 2)] for path in paths]
            self.successors = [Successor(self.framework, *pair) for pair in pairs]
