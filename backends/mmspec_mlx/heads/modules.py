"""The parts that heads are made of.

Shape letters: n rows, H width, N visual positions, C queries, K slots, I inputs, O outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from mmspec.config import TextConfig
from mmspec.heads.config import HeadConfig
from mmspec.heads.manifest import LAYER
from mmspec_mlx.clip import affine
from mmspec_mlx.kernels import Norm, kernels
from mmspec_mlx.llama import Decoder, Layer, Map
from mmspec_mlx.weights import Weights


def linear(weights: Weights, paths: Sequence[str], *, bias: bool = True) -> Map:
    """Take the linear layers at `paths`, which have one input, as one product."""
    return (
        affine(weights, *paths) if bias else weights.matrix(*(f"{path}.weight" for path in paths))
    )


def decoder(weights: Weights, config: HeadConfig, text: TextConfig) -> Decoder:
    """Take the one layer."""
    norms, eps, attention = kernels(weights.dtype).norm, text.rms_norm_eps, f"{LAYER}.self_attn"
    before = f"{LAYER}.input_layernorm.weight"
    layer = Layer(
        attention_norm=norms(weights.array(before), eps) if config.input_norm else unchanged,
        queries_keys_values=linear(
            weights, [f"{attention}.{part}_proj" for part in "qkv"], bias=config.qkv_bias
        ),
        attention_out=linear(weights, [f"{attention}.o_proj"], bias=False),
        feed_norm=norms(weights.array(f"{LAYER}.post_attention_layernorm.weight"), eps),
        gate_up=linear(weights, [f"{LAYER}.mlp.{p}_proj" for p in ("gate", "up")], bias=False),
        down=linear(weights, [f"{LAYER}.mlp.down_proj"], bias=False),
    )
    return Decoder([layer], text, weights.dtype)


def unchanged(x: mx.array) -> mx.array:
    """In place of a norm that a layer does not have."""
    return x


def silu(x: mx.array) -> mx.array:
    """x * sigmoid(x)."""
    return x * mx.sigmoid(x)


@dataclass(frozen=True, slots=True)
class Compressor:
    """Learned queries that read an image's hidden states (FLASH, section 3.2)."""

    queries: mx.array
    """[C, H]"""
    norm: Norm

    def __call__(self, states: mx.array) -> mx.array:
        """Pack states [N, H] into latents [C, H]: softmax(A norm(F)^T / sqrt(H)) F."""
        scores = self.queries @ self.norm(states).T / states.shape[-1] ** 0.5
        return mx.softmax(scores, axis=-1) @ states


@dataclass(frozen=True, slots=True)
class Expansion:
    """K features of one state, each x + silu(W_i x + b_i) (Medusa, Cai et al. 2024, eq. 1)."""

    together: Map
    """All W_i and b_i as one product, [H, K * H]."""

    @classmethod
    def take(cls, weights: Weights, paths: Sequence[str]) -> "Expansion":
        """Take the linear layers at `paths`."""
        return cls(linear(weights, paths))

    def __call__(self, x: mx.array, count: int) -> mx.array:
        """The first `count` features [count, H] of x [1, H]."""
        return x + silu(self.together(x).reshape(-1, x.shape[-1])[:count])


@dataclass(frozen=True, slots=True)
class Successor:
    """One place of a Hydra head, which knows the tokens before it (Ankner et al. 2024, eq. 2)."""

    first: Map
    second: Map

    @classmethod
    def take(cls, weights: Weights, path: str) -> "Successor":
        """Take both linear layers."""
        return cls(linear(weights, [f"{path}.linear_1"]), linear(weights, [f"{path}.linear_2"]))

    def __call__(self, state: mx.array, known: mx.array) -> mx.array:
        """Features [n, H] from the state [1, H] and it with the embeddings since, [n, I]."""
        return state + self.second(silu(self.first(known)))


class Mean:
    """An image's mean embedding, mapped and added to a state."""

    def __init__(self, weights: Weights) -> None:
        """Take the map."""
        self._map = linear(weights, ["vision"], bias=False)

    def __call__(self, state: mx.array, seen: mx.array) -> mx.array:
        """What state [1, H] becomes with embeddings [N, H] of all images."""
        return state + self._map(mx.mean(seen, axis=0, keepdims=True))


class Attention:
    """What a state looks for among all visual embeddings, mapped and added to it; one head."""

    def __init__(self, weights: Weights) -> None:
        """Take both maps."""
        self._query = linear(weights, ["vision.query"], bias=False)
        self._output = linear(weights, ["vision.output"], bias=False)

    def __call__(self, state: mx.array, seen: mx.array) -> mx.array:
        """What state [1, H] becomes with embeddings [N, H] of all images."""
        scores = self._query(state) @ seen.T / state.shape[-1] ** 0.5
        return state + self._output(mx.softmax(scores, axis=-1) @ seen)


SIGHTS: dict[str, type[Mean] | type[Attention]] = {"mean": Mean, "attention": Attention}
"""How image embeddings reach a state, by the config's word."""


class Layered:
    """What EAGLE, MSD and FLASH consist of."""

    def __init__(self, weights: Weights, config: HeadConfig, text: TextConfig) -> None:
        """Take every tensor."""
        self._fusion = linear(weights, ["fc"], bias=config.bias)
        self.decoder = decoder(weights, config, text)
        self.compressor: Compressor | None = None
        if config.queries:
            scale = weights.array("compressor.norm.weight")
            norm = kernels(weights.dtype).norm(scale, text.rms_norm_eps)
            self.compressor = Compressor(weights.array("compressor.queries"), norm)
        self.expansion: Expansion | None = None
        if config.slots:
            self.expansion = Expansion.take(weights, [f"slots.{i}" for i in range(config.slots)])

    def fuse(self, embeddings: mx.array, states: mx.array) -> mx.array:
        """What the layer is fed [n, H] for pairs of what came of a state and the state, [n, H]."""
        return self._fusion(mx.concatenate([embeddings, states], axis=-1))


class Slotted:
    """What Medusa and Hydra consist of."""

    def __init__(self, weights: Weights, config: HeadConfig) -> None:
        """Take every tensor."""
        sight, paths = SIGHTS.get(config.vision), [f"heads.{i}" for i in range(config.slots)]
        self.sight = sight(weights) if sight else None
        self.expansion: Expansion | None = None
        self.successors: list[Successor] = []
        if config.kind == "medusa":
            self.expansion = Expansion.take(weights, [f"{path}.linear" for path in paths])
        else:
            self.successors = [Successor.take(weights, path) for path in paths]
