"""Llama over plain weight tensors: fused products, one cache write per layer, nothing else.

Shape letters: R rows, n columns fed, C columns seen, H width, D head size, V vocabulary.
Activations are [R * n, H], or [R * n, 1, H] of a few: at small sizes the count of operations is the
cost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.config import TextConfig
from mmspec.manifest import EMBEDDING, LM_HEAD
from mmspec.viskip import Sight
from mmspec_torch import cache
from mmspec_torch.device import upload
from mmspec_torch.norms import Norm, norm
from mmspec_torch.products import Product, product
from mmspec_torch.weights import Weights

CHUNK = 512
"""Columns fed at once in a prefill: bounds the memory that activations and masks take."""

Angles = tuple[Tensor, Tensor]
"""Cosines and signed sines [R or 1, 1, n, D] of the positions fed."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer."""

    attention_norm: Norm
    qkv: Product
    output: Product
    mlp_norm: Norm
    gate_up: Product
    down: Product

    @property
    def vectors(self) -> int:
        """The most rows that all products take as vectors."""
        return min(each.vectors for each in (self.qkv, self.output, self.gate_up, self.down))

    @classmethod
    def take(cls, weights: Weights, path: str, eps: float) -> "Layer":
        """Take the layer at `path`, products of one input fused."""
        return cls(
            norm(weights.take(f"{path}.input_layernorm.weight"), eps),
            weights.product(*(f"{path}.self_attn.{part}_proj" for part in "qkv")),
            weights.product(f"{path}.self_attn.o_proj"),
            norm(weights.take(f"{path}.post_attention_layernorm.weight"), eps),
            weights.product(f"{path}.mlp.gate_proj", f"{path}.mlp.up_proj"),
            weights.product(f"{path}.mlp.down_proj"),
        )


class Rotary:
    """Cosines and sines of every position up to the furthest one asked for."""

    def __init__(self, head_dim: int, theta: float, device: torch.device, dtype: torch.dtype):
        """Tables are made in float32, then rounded to `dtype`."""
        steps = torch.arange(0, head_dim, 2, dtype=torch.int64).float()
        self._frequencies = 1.0 / theta ** (steps / head_dim)
        self._device, self._dtype = device, dtype
        self._table = self._compute(cache.STEP)

    def run(self, start: int, end: int) -> Angles:
        """Angles of the positions from `start` to `end`, the same in every row."""
        cos, sin = self._reaching(end)
        return cos[start:end], sin[start:end]

    def at(self, positions: Sequence[Sequence[int]]) -> Angles:
        """Angles of positions [R, n]."""
        cos, sin = self._reaching(max(max(row) for row in positions) + 1)
        index = upload([list(row) for row in positions], torch.int64, self._device)
        return F.embedding(index, cos).unsqueeze(1), F.embedding(index, sin).unsqueeze(1)

    def runs(self, positions: Sequence[range], sizes: Sequence[int]) -> Iterator[Angles]:
        """Angles of each row's consecutive positions, R ranges of one length, cut into `sizes`."""
        if len(positions) == 1:
            whole = self.run(positions[0].start, positions[0].stop)
        else:
            whole = self.at(positions)
        cos, sin = (each.split_with_sizes(sizes, dim=-2) for each in whole)
        return zip(cos, sin, strict=True)

    def after(self, start: int, depths: Tensor, deepest: int) -> Angles:
        """Angles of the positions `start` + depths [n], none deeper than `deepest`."""
        cos, sin = self._reaching(start + deepest + 1)
        return cos[start:][depths], sin[start:][depths]

    def _reaching(self, end: int) -> Angles:
        if end > len(self._table[0]):
            self._table = self._compute(2 * end)
        return self._table

    def _compute(self, count: int) -> Angles:
        """Positions [count, D]; the sign of rotate-half is in the sines' first half."""
        half = torch.arange(count).float().unsqueeze(1) * self._frequencies
        cos, sin = half.cos(), half.sin()
        table = torch.cat((cos, cos), dim=1), torch.cat((-sin, sin), dim=1)
        return table[0].to(self._device, self._dtype), table[1].to(self._device, self._dtype)


class Step(NamedTuple):
    """What one forward needs besides its input."""

    angles: Angles
    place: cache.Place
    mask: Tensor | None = None
    """Added to the scores, broadcast to [R, heads, n, C]."""
    causal: bool = False
    """Whether columns start at 0 and see what precedes them; then no mask is needed."""
    sight: Sight | None = None
    """Told of the last layer's attention, where anybody watches; R is then 1."""


def causal_mask(start: int, end: int, like: Tensor) -> Tensor:
    """The mask [n, C] of columns `start` to `end`, each seeing itself and all before it."""
    return like.new_full((end - start, end), hidden(like.dtype)).triu_(start + 1)


def tree_mask(start: int, seen: Tensor, like: Tensor) -> Tensor:
    """The mask [n, start + n] of columns that see all before `start` and of them `seen` [n, n]."""
    shades = like.new_zeros(seen.shape).masked_fill_(~seen, hidden(like.dtype))
    return F.pad(shades, (start, 0))


def chunks(start: int, end: int) -> Iterator[tuple[int, int]]:
    """The columns from `start` to `end` in runs that fit the memory."""
    for at in range(start, end, CHUNK):
        yield at, min(at + CHUNK, end)


def hidden(dtype: torch.dtype) -> float:
    """What hides a column when added to its score.

    Finite, for a padded column that sees nothing at all must not become NaN; halved, for its sum
    with a score must not overflow.
    """
    return torch.finfo(dtype).min / 2


class Decoder:
    """Decoder layers with their rotary positions, and nothing before or after them."""

    def __init__(
        self,
        layers: Sequence[Layer],
        config: TextConfig,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Keep layers whose sizes `config` gives."""
        self.config, self.device, self.dtype = config, device, dtype
        self.rotary = Rotary(config.head_dim, config.rope_theta, device, dtype)
        self._layers = layers
        self._grouped = config.num_key_value_heads != config.num_attention_heads
        self._half = config.head_dim // 2
        self._vectors = min(layer.vectors for layer in layers)

    def new_cache(self, rows: int) -> cache.Cache:
        """An empty cache for `rows` rows."""
        text = self.config
        sizes = len(self._layers), rows, text.num_key_value_heads, text.head_dim
        return cache.Cache(*sizes, self.device, self.dtype)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """Feed embeddings [R * n, H], which may be overwritten; returns the last layer's output."""
        opened, shape = step.place.open(), x.shape
        if 1 < len(x) <= self._vectors:
            x = x.unsqueeze(1)
        for layer, memory in zip(self._layers, opened, strict=True):
            x = self._attend(x, layer, memory, step)
            gate, up = layer.gate_up(layer.mlp_norm(x)).chunk(2, dim=-1)
            x = layer.down.added(F.silu(gate).mul_(up), x)
        return x.view(shape)

    def append(
        self, x: Tensor, memory: cache.Cache, start: int, sight: Sight | None = None
    ) -> Tensor:
        """Feed one row's embeddings [n, H] to the columns from `start` on, at the same positions.

        x may be overwritten.  sight: told of the last layer's attention.
        Returns the last layer's output [n, H].
        """
        end = start + len(x)
        angles = self.rotary.run(start, end)
        return self.follow(x, cache.Span(memory, start, end), angles, sight=sight)

    def follow(
        self,
        x: Tensor,
        span: cache.Span,
        angles: Angles,
        padding: Tensor | None = None,
        sight: Sight | None = None,
    ) -> Tensor:
        """Feed embeddings [R * n, H] to a span of columns, each seeing itself and all before it.

        x may be overwritten.  padding: [R, 1, 1, C or more] is added to scores, to hide columns.
        Returns the last layer's output [R * n, H].
        """
        several = span.end - span.start > 1
        mask = None if padding is None else padding[..., : span.end]
        if several and (span.start or mask is not None):
            order = causal_mask(span.start, span.end, x)
            mask = order if mask is None else mask + order
        return self.forward(x, Step(angles, span, mask, several and mask is None, sight))

    def _attend(self, x: Tensor, layer: Layer, memory: cache.Layer, step: Step) -> Tensor:
        """Add attention's output to x, and this step's keys and values to the cache."""
        written, keys, values = memory
        asking, asked = self.config.num_attention_heads, self.config.num_key_value_heads
        fused = layer.qkv(layer.attention_norm(x))
        heads = fused.view(keys.shape[0], -1, asking + 2 * asked, self.config.head_dim)
        heads = heads.transpose(1, 2)
        self._rotate(heads.narrow(1, 0, asking + asked), step.angles)
        written.copy_(heads.narrow(1, asking, 2 * asked))
        queries = heads.narrow(1, 0, asking)
        attended = F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=step.mask,
            is_causal=step.causal,
            enable_gqa=self._grouped,
        )
        if step.sight and layer is self._layers[-1]:
            _look(step.sight, queries[0], keys[0], step.mask)
        return layer.output.added(attended.transpose(1, 2).reshape(*x.shape[:-1], -1), x)

    def _rotate(self, heads: Tensor, angles: Angles) -> None:
        cos, sin = angles
        swapped = heads.roll(self._half, dims=-1)
        heads.mul_(cos).addcmul_(swapped, sin)


class Llama(Decoder):
    """The decoder between its embedding and its output head."""

    def __init__(
        self, weights: Weights, config: TextConfig, device: torch.device, dtype: torch.dtype
    ) -> None:
        """Take the decoder's tensors, and the head's where it is not the embedding."""
        self.embedding = weights.take(EMBEDDING)
        paths = (f"language_model.layers.{index}" for index in range(config.num_hidden_layers))
        layers = [Layer.take(weights, path, config.rms_norm_eps) for path in paths]
        super().__init__(layers, config, device, dtype)
        self._norm = norm(weights.take("language_model.norm.weight"), config.rms_norm_eps)
        # Never quantized: it is read once a token, and decides between tokens that nearly tie.
        tied = config.tie_word_embeddings
        self._head = product(self.embedding if tied else weights.take(LM_HEAD))

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings [n, H] of ids [n]."""
        return F.embedding(ids, self.embedding)

    def states(self, x: Tensor) -> Tensor:
        """Hidden states [n, H] of outputs [n, H]: what the output head reads."""
        return self._norm(x)

    def project(self, states: Tensor) -> Tensor:
        """Logits [n, V] of hidden states [n, H]."""
        return self._head(states)

    def logits(self, x: Tensor) -> Tensor:
        """Logits [n, V] of outputs [n, H]."""
        return self._head(self._norm(x))

    def best(self, x: Tensor, among: int) -> Tensor:
        """The likeliest [n] of the first `among` ids after outputs [n, H]."""
        return likeliest(self.logits(x).narrow(1, 0, among))


def likeliest(logits: Tensor) -> Tensor:
    """The ids [n] of the largest of logits [n, V]."""
    return logits.argmax(dim=-1)


def _look(sight: Sight, queries: Tensor, keys: Tensor, mask: Tensor | None) -> None:
    """Tell of queries [Q, n, D] and keys [K, C, D]; without a mask each sees what precedes it."""
    if mask is None:
        end = keys.shape[1]
        mask = causal_mask(end - queries.shape[1], end, queries)
    sight.look(xp, queries.float(), keys.float(), mask.float())
