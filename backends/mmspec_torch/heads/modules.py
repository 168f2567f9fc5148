"""The parts that heads are made of.

Shape letters: n rows, H width, N visual positions, C queries, K slots, I inputs, O outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.config import TextConfig
from mmspec.heads.config import HeadConfig
from mmspec.heads.manifest import LAYER
from mmspec_torch.llama import Decoder, Layer
from mmspec_torch.norms import Norm, norm
from mmspec_torch.products import Biased, Product
from mmspec_torch.weights import Weights


def linear(weights: Weights, paths: Sequence[str], *, bias: bool = True) -> Product:
    """Take the linear layers at `paths`, which have one input, as one product."""
    matrix = weights.product(*paths)
    return Biased(matrix, weights.stack(paths, "bias")) if bias else matrix


def decoder(weights: Weights, config: HeadConfig, text: TextConfig, like: Decoder) -> Decoder:
    """Take the one layer, to run where and as `like` does."""
    attention, eps = f"{LAYER}.self_attn", text.rms_norm_eps
    before = f"{LAYER}.input_layernorm.weight"
    layer = Layer(
        norm(weights.take(before), eps) if config.input_norm else unchanged,
        linear(weights, [f"{attention}.{part}_proj" for part in "qkv"], bias=config.qkv_bias),
        weights.product(f"{attention}.o_proj"),
        norm(weights.take(f"{LAYER}.post_attention_layernorm.weight"), eps),
        weights.product(f"{LAYER}.mlp.gate_proj", f"{LAYER}.mlp.up_proj"),
        weights.product(f"{LAYER}.mlp.down_proj"),
    )
    return Decoder([layer], text, like.device, like.dtype)


def unchanged(x: Tensor) -> Tensor:
    """In place of a norm that a layer does not have."""
    return x


@dataclass(frozen=True, slots=True)
class Compressor:
    """Learned queries that read an image's hidden states (FLASH, section 3.2)."""

    queries: Tensor
    """[C, H]"""
    norm: Norm

    def __call__(self, states: Tensor) -> Tensor:
        """Pack states [N, H] into latents [C, H]: softmax(A norm(F)^T / sqrt(H)) F."""
        scores = self.queries @ self.norm(states).T / states.shape[-1] ** 0.5
        return torch.mm(scores.softmax(dim=-1), states)


@dataclass(frozen=True, slots=True)
class Expansion:
    """K features of one state, each x + silu(W_i x + b_i) (Medusa, Cai et al. 2024, eq. 1)."""

    together: Product
    """All W_i and b_i as one product, [H, K * H]."""

    @classmethod
    def take(cls, weights: Weights, paths: Sequence[str]) -> "Expansion":
        """Take the linear layers at `paths`."""
        return cls(linear(weights, paths))

    def __call__(self, x: Tensor, count: int) -> Tensor:
        """The first `count` features [count, H] of x [1, H]."""
        blocks = self.together(x).view(-1, x.shape[-1])[:count]
        return F.silu(blocks).add_(x)


@dataclass(frozen=True, slots=True)
class Successor:
    """One place of a Hydra head, which knows the tokens before it (Ankner et al. 2024, eq. 2)."""

    first: Product
    second: Product

    @classmethod
    def take(cls, weights: Weights, path: str) -> "Successor":
        """Take both linear layers."""
        return cls(linear(weights, [f"{path}.linear_1"]), linear(weights, [f"{path}.linear_2"]))

    def __call__(self, state: Tensor, known: Tensor) -> Tensor:
        """Features [n, H] from the state [1, H] and it with the embeddings since, [n, I]."""
        return state + self.second(F.silu(self.first(known)))


class Mean:
    """An image's mean embedding, mapped and added to a state."""

    def __init__(self, weights: Weights) -> None:
        """Take the map."""
        self._map = linear(weights, ["vision"], bias=False)

    def __call__(self, state: Tensor, seen: Tensor) -> Tensor:
        """What state [1, H] becomes with embeddings [N, H] of all images."""
        return state + self._map(seen.mean(dim=0, keepdim=True))


class Attention:
    """What a state looks for among all visual embeddings, mapped and added to it; one head."""

    def __init__(self, weights: Weights) -> None:
        """Take both maps."""
        self._query = linear(weights, ["vision.query"], bias=False)
        self._output = linear(weights, ["vision.output"], bias=False)

    def __call__(self, state: Tensor, seen: Tensor) -> Tensor:
        """What state [1, H] becomes with embeddings [N, H] of all images."""
        scores = self._query(state) @ seen.T / state.shape[-1] ** 0.5
        return state + self._output(scores.softmax(dim=-1) @ seen)


SIGHTS: dict[str, type[Mean] | type[Attention]] = {"mean": Mean, "attention": Attention}
"""How image embeddings reach a state, by the config's word."""


class Layered:
    """What EAGLE, MSD and FLASH consist of."""

    def __init__(
        self, weights: Weights, config: HeadConfig, text: TextConfig, like: Decoder
    ) -> None:
        """Take every tensor; the layer runs where and as `like` does."""
        self._fusion = linear(weights, ["fc"], bias=config.bias)
        self.decoder = decoder(weights, config, text, like)
        self.compressor: Compressor | None = None
        if config.queries:
            scale = norm(weights.take("compressor.norm.weight"), text.rms_norm_eps)
            self.compressor = Compressor(weights.take("compressor.queries"), scale)
        self.expansion: Expansion | None = None
        if config.slots:
            self.expansion = Expansion.take(weights, [f"slots.{i}" for i in range(config.slots)])

    def fuse(self, embeddings: Tensor, states: Tensor) -> Tensor:
        """What the layer is fed [n, H] for pairs of what came of a state and the state, [n, H]."""
        return self._fusion(torch.cat((embeddings, states), dim=-1))


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
