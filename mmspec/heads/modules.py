"""The parts that heads are made of.

Shape letters: n rows, H width, N visual positions, C queries, K slots, I inputs.
"""

from dataclasses import dataclass
from typing import Generic

from mmspec.arrays import A, Map
from mmspec.config import TextConfig
from mmspec.heads.config import HeadConfig
from mmspec.heads.seam import Framework, Parts


@dataclass(frozen=True, slots=True)
class Compressor(Generic[A]):
    """Learned queries that read an image's hidden states (FLASH, section 3.2)."""

    framework: Framework[A]
    queries: A
    """[C, H]"""
    norm: Map[A]

    def __call__(self, states: A) -> A:
        """Pack states [N, H] into latents [C, H]: softmax(A norm(F)^T / sqrt(H)) F."""
        scores = self.queries @ self.norm(states).T / states.shape[-1] ** 0.5
        return self.framework.softmax(scores) @ states


@dataclass(frozen=True, slots=True)
class Expansion(Generic[A]):
    """K features of one state, each x + silu(W_i x + b_i) (Medusa, Cai et al. 2024, eq. 1)."""

    framework: Framework[A]
    together: Map[A]
    """All W_i and b_i as one product, [H, K * H]."""

    def __call__(self, x: A, count: int) -> A:
        """The first `count` features [count, H] of x [1, H]."""
        blocks = self.framework.xp.reshape(self.together(x), (-1, x.shape[-1]))
        return x + self.framework.silu(blocks[:count])


@dataclass(frozen=True, slots=True)
class Successor(Generic[A]):
    """One place of a Hydra head, which knows the tokens before it (Ankner et al. 2024, eq. 2)."""

    framework: Framework[A]
    first: Map[A]
    second: Map[A]

    @classmethod
    def take(cls, parts: Parts[A], path: str) -> "Successor[A]":
        """Take both linear layers."""
        first, second = parts.linear(f"{path}.linear_1"), parts.linear(f"{path}.linear_2")
        return cls(parts.framework, first, second)

    def __call__(self, state: A, known: A) -> A:
        """Features [n, H] from the state [1, H] and it with the embeddings since, [n, I]."""
        return state + self.second(self.framework.silu(self.first(known)))


class Mean(Generic[A]):
    """An image's mean embedding, mapped and added to a state."""

    def __init__(self, parts: Parts[A]) -> None:
        """Take the map."""
        self._xp = parts.framework.xp
        self._map = parts.linear("vision", bias=False)

    def __call__(self, state: A, seen: A) -> A:
        """What state [1, H] becomes with embeddings [N, H] of all images."""
        return state + self._map(self._xp.mean(seen, axis=0, keepdims=True))


class Attention(Generic[A]):
    """What a state looks for among all visual embeddings, mapped and added to it; one head."""

    def __init__(self, parts: Parts[A]) -> None:
        """Take both maps."""
        self._softmax = parts.framework.softmax
        self._query = parts.linear("vision.query", bias=False)
        self._output = parts.linear("vision.output", bias=False)

    def __call__(self, state: A, seen: A) -> A:
        """What state [1, H] becomes with embeddings [N, H] of all images."""
        scores = self._query(state) @ seen.T / state.shape[-1] ** 0.5
        return state + self._output(self._softmax(scores) @ seen)


class Layered(Generic[A]):
    """What EAGLE, MSD and FLASH consist of."""

    def __init__(self, parts: Parts[A], config: HeadConfig, text: TextConfig) -> None:
        """Take every tensor; `text` gives the layer's sizes."""
        self.framework, norm = parts.framework, config.input_norm
        self._fusion = parts.linear("fc", bias=config.bias)
        self.layer = parts.layer(text, qkv_bias=config.qkv_bias, input_norm=norm)
        self.compressor: Compressor[A] | None = None
        if config.queries:
            queries = parts.tensor("compressor.queries")
            scale = parts.norm("compressor.norm", text.rms_norm_eps)
            self.compressor = Compressor(self.framework, queries, scale)
        self.expansion: Expansion[A] | None = None
        if config.slots:
            slots = parts.linear(*(f"slots.{i}" for i in range(config.slots)))
            self.expansion = Expansion(self.framework, slots)

    def fuse(self, embeddings: A, states: A) -> A:
        """What the layer is fed [n, H] for pairs of what came of a state and the state, [n, H]."""
        return self._fusion(self.framework.concat([embeddings, states], -1))


class Slotted(Generic[A]):
    """What Medusa and Hydra consist of."""

    def __init__(self, parts: Parts[A], config: HeadConfig) -> None:
        """Take every tensor."""
        self.framework = parts.framework
        paths = [f"heads.{i}" for i in range(config.slots)]
        self.sight: Mean[A] | Attention[A] | None = None
        if config.vision != "none":
            self.sight = Mean(parts) if config.vision == "mean" else Attention(parts)
        self.expansion: Expansion[A] | None = None
        self.successors: list[Successor[A]] = []
        if config.kind == "medusa":
            together = parts.linear(*(f"{path}.linear" for path in paths))
            self.expansion = Expansion(self.framework, together)
        else:
            self.successors = [Successor.take(parts, path) for path in paths]


def take(parts: Parts[A], config: HeadConfig) -> Layered[A] | Slotted[A]:
    """Take a head's tensors."""
    return Layered(parts, config, config.layer) if config.layer else Slotted(parts, config)
