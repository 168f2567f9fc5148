"""Llama over plain weight tensors, rows batched, with fused projections."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from mmspec.config import TextConfig
from mmspec.manifest import EMBEDDING, LM_HEAD
from mmspec.viskip import Sight
from mmspec_mlx import host
from mmspec_mlx.cache import Cache
from mmspec_mlx.kernels import Norm, kernels
from mmspec_mlx.rotary import Rotary, Rotation
from mmspec_mlx.weights import Weights

CHUNK = 512
"""Tokens of a prompt to feed at once: attention scores of more would outweigh the cache."""


Map = Callable[[mx.array], mx.array]
"""Maps x [..., in] to [..., out]: a matrix, or one with a bias."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one decoder layer."""

    attention_norm: Norm
    queries_keys_values: Map
    attention_out: Map
    feed_norm: Norm
    gate_up: Map
    down: Map


class Decoder:
    """Decoder layers alone.  R rows, n tokens per row, H width."""

    def __init__(self, layers: Sequence[Layer], config: TextConfig, dtype: mx.Dtype) -> None:
        """Keep layers whose sizes `config` gives."""
        self.config = config
        self.dtype = dtype
        self.kernels = kernels(dtype)
        self.rotary = Rotary(config.head_dim, config.rope_theta, dtype)
        self._layers = layers
        self._turned = config.num_attention_heads + config.num_key_value_heads

    def new_cache(self, rows: int) -> Cache:
        """Return an empty cache for R rows."""
        config = self.config
        heads, width = config.num_key_value_heads, config.head_dim
        return Cache(len(self._layers), rows, heads, width, self.dtype)

    def feed(
        self,
        x: mx.array,
        cache: Cache,
        at: int,
        rotate: Rotation,
        mask: mx.array | None,
        sight: Sight | None = None,
    ) -> mx.array:
        """Run embeddings x [R, n, H] through the layers, at columns `at` to at + n.

        rotate: the turn of their positions.  mask: 0 where a token [n] sees a column [at + n], else
        -inf, broadcast over rows and heads; None where all see all.
        sight: told of the last layer's attention, where R is 1.
        Returns hidden states [R, n, H], not yet normalised.
        """
        cache.reserve(at + x.shape[1])
        for index, layer in enumerate(self._layers):
            queries, keys, values = self._project(layer, x, rotate)
            keys, values = cache.write(index, at, keys, values)
            if sight and layer is self._layers[-1]:
                _look(self.kernels.arrays, sight, queries[0], keys[0], mask)
            x = x + self._attend(layer, queries, keys, values, mask)
            gate, up = mx.split(layer.gate_up(layer.feed_norm(x)), 2, axis=-1)
            x = x + layer.down(self.kernels.gated(gate, up))
            self.kernels.ahead(x)
        return x

    def append(self, rows: mx.array, cache: Cache, at: int, sight: Sight | None = None) -> mx.array:
        """Feed one sequence's embeddings [n, H] from column `at` on, each seeing all before it.

        sight: told of the last layer's attention.
        Returns hidden states [n, H], not yet normalised.
        """
        mask, turn = causal(at, len(rows), rows.dtype), self.rotary.at([at], len(rows))
        return self.feed(mx.expand_dims(rows, 0), cache, at, turn, mask, sight)[0]

    def _project(
        self, layer: Layer, x: mx.array, rotate: Rotation
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Queries [R, query heads, n, width], keys and values [R, heads, n, width]."""
        fused = layer.queries_keys_values(layer.attention_norm(x))
        heads = fused.reshape(*x.shape[:2], -1, self.config.head_dim).swapaxes(1, 2)
        turned = rotate(heads[:, : self._turned])
        queries = self.config.num_attention_heads
        return turned[:, :queries], turned[:, queries:], heads[:, self._turned :]

    def _attend(
        self,
        layer: Layer,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        mask: mx.array | None,
    ) -> mx.array:
        seen = self.kernels.attention(queries, keys, values, mask)
        return layer.attention_out(mx.flatten(seen.swapaxes(1, 2), -2))


class Llama(Decoder):
    """Embedding, decoder layers, head.  V vocabulary."""

    def __init__(self, weights: Weights, config: TextConfig) -> None:
        """Take the decoder's tensors, fused where one product does the work of several."""
        self.embedding = weights.table(EMBEDDING)
        norms = kernels(weights.dtype).norm
        layers = [
            take_layer(weights, f"language_model.layers.{index}", norms, config.rms_norm_eps)
            for index in range(config.num_hidden_layers)
        ]
        super().__init__(layers, config, weights.dtype)
        last = weights.array("language_model.norm.weight")
        self._norm = norms(last, config.rms_norm_eps)
        tied = config.tie_word_embeddings
        self._head = weights.for_few_rows(self.embedding if tied else weights.matrix(LM_HEAD))

    def embed(self, tokens: mx.array) -> mx.array:
        """Embeddings [n, H] of drafted ids [n].

        The device starts on the ids while the operations that follow are listed.
        """
        host.start(tokens)
        return self.embedding.rows(tokens)

    def states(self, x: mx.array) -> mx.array:
        """Normalise hidden states [..., H]: what the output head reads."""
        return self._norm(x)

    def project(self, states: mx.array) -> mx.array:
        """Return float32 logits [..., V] of normalised hidden states [..., H]."""
        return self._head(states).astype(mx.float32)

    def logits(self, x: mx.array) -> mx.array:
        """Return float32 logits [..., V] of hidden states [..., H]."""
        return self.project(self.states(x))


def take_layer(
    weights: Weights, path: str, norms: Callable[[mx.array, float], Norm], epsilon: float
) -> Layer:
    """Take the layer at `path`."""
    attention = (f"{path}.self_attn.{part}_proj.weight" for part in "qkv")
    feed = (f"{path}.mlp.{part}_proj.weight" for part in ("gate", "up"))
    return Layer(
        attention_norm=norms(weights.array(f"{path}.input_layernorm.weight"), epsilon),
        queries_keys_values=weights.decoding_matrix(*attention),
        attention_out=weights.decoding_matrix(f"{path}.self_attn.o_proj.weight"),
        feed_norm=norms(weights.array(f"{path}.post_attention_layernorm.weight"), epsilon),
        gate_up=weights.decoding_matrix(*feed),
        down=weights.decoding_matrix(f"{path}.mlp.down_proj.weight"),
    )


def _look(xp: Any, sight: Sight, queries: mx.array, keys: mx.array, mask: mx.array | None) -> None:
    """Tell of queries [Q, n, width] and keys [K, columns, width]."""
    hidden = mx.zeros(1) if mask is None else mask.astype(mx.float32)
    sight.look(xp, queries.astype(mx.float32), keys.astype(mx.float32), hidden)


def causal(at: int, n: int, dtype: mx.Dtype) -> mx.array | None:
    """Mask [n, at + n] of n tokens that follow `at` columns; None where it hides nothing."""
    if n == 1:
        return None
    return additive(mx.arange(at + n) <= mx.expand_dims(mx.arange(at, at + n), 1), dtype)


def behind(columns: int, mask: mx.array) -> mx.array:
    """A mask [n, E] of the newest columns, with `columns` in front of them that all see."""
    return mx.pad(mask, [(0, 0), (columns, 0)])


def additive(seen: mx.array, dtype: mx.Dtype) -> mx.array:
    """Return 0 where `seen`, -inf elsewhere: what is added to attention's scores."""
    return mx.where(seen, mx.array(0, dtype), mx.array(-math.inf, dtype))
