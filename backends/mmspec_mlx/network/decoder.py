"""The decoder of Llama and Qwen over plain weight tensors, with rows and fused projections.

Shape letters: R rows, n tokens per row, H width, D head size, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import mlx.core as mx

from mmspec.checkpoints.manifest import EMBEDDING, LM_HEAD
from mmspec.decoding.block_attention import Places, attend, whole_blocks
from mmspec.decoding.delta_net import new_states
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import Enter, Positions, behind_norm
from mmspec_mlx.device import device_io
from mmspec_mlx.device.framework import framework
from mmspec_mlx.device.kernels import kernels
from mmspec_mlx.device.weights import Weights
from mmspec_mlx.network.cache import Cache, LayerCache, LayerMemory
from mmspec_mlx.network.delta_layer import DeltaLayer
from mmspec_mlx.network.rotary import Rotary, Rotation

Visible = mx.array | Places | None
"""The columns that tokens see: a mask [n, at + n] of 0 or -inf, broadcast over rows and heads; the
places of one sequence's rows for attention by blocks; None if every token sees every column.
"""
Linear = Callable[[mx.array], mx.array]
"""Function from x [..., in] to [..., out]: a matrix, with or without a bias."""


class Attention:
    """Self-attention; q_proj, k_proj and v_proj are one product."""

    def __init__(
        self, qkv_proj: Linear, o_proj: Linear, config: TextConfig, qk_norm: Linear | None = None
    ) -> None:
        """qk_norm: normalises the heads [..., heads + KV heads, D] of queries and keys; or None."""
        self.qkv_proj, self.o_proj, self._qk_norm = qkv_proj, o_proj, qk_norm
        self._gated = config.gated
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = config.head_dim

    def __call__(
        self,
        x: mx.array,
        rotate: Rotation,
        cache: LayerCache,
        visible: Visible,
        context: mx.array | None = None,
    ) -> mx.array:
        """Return attention's output [R, n, H] for x [R, n, H].

        context: rows [R, m, H] before x, which attention sees as they are and which see nothing.
        """
        seen = x if context is None else mx.concatenate([context, x], axis=1)
        queries, gates, keys, values = self.remember(seen, rotate, cache)
        queries = queries if context is None else queries[:, :, -x.shape[1] :]
        attended = mx.flatten(_attended(queries, keys, values, visible).swapaxes(1, 2), -2)
        if gates is not None:
            attended = attended * mx.sigmoid(mx.flatten(gates, -2))
        return self.o_proj(attended)

    def remember(
        self, x: mx.array, rotate: Rotation, cache: LayerCache
    ) -> tuple[mx.array, mx.array | None, mx.array, mx.array]:
        """Write the keys and values of x [R, n, H].

        Returns its queries [R, heads, n, D] and their gates, if it has any, and the keys and values
        of all visible columns.
        """
        qkv, gates = self._parted(self.qkv_proj(x).reshape(*x.shape[:2], -1, self._head_dim))
        heads = self._heads + self._kv_heads
        turned, values = qkv[:, :, :heads], qkv[:, :, heads:].swapaxes(1, 2)
        turned = self._qk_norm(turned) if self._qk_norm else turned
        rotated = rotate(turned.swapaxes(1, 2))
        keys, values = cache.update(rotated[:, self._heads :], values)
        return rotated[:, : self._heads], gates, keys, values

    def _parted(self, qkv: mx.array) -> tuple[mx.array, mx.array | None]:
        """Queries, keys and values [R, n, heads + 2 KV heads, D], and gates [R, n, heads, D]."""
        if not self._gated:
            return qkv, None
        count = 2 * self._heads  # a query, then its gate
        queries, gates = qkv[:, :, :count:2], qkv[:, :, 1:count:2]
        return mx.concatenate([queries, qkv[:, :, count:]], axis=2), gates


def _attended(queries: mx.array, keys: mx.array, values: mx.array, visible: Visible) -> mx.array:
    """Return attention [R, heads, n, D] of queries to keys and values [R, KV heads, C, D]."""
    size = queries.shape[-1]
    if isinstance(visible, Places):
        grouped = queries.reshape(keys.shape[1], -1, *queries.shape[2:])
        attended: mx.array = attend(mx, grouped, keys[0], values[0], visible)
        return attended.reshape(queries.shape)
    return mx.fast.scaled_dot_product_attention(
        queries, keys, values, scale=size**-0.5, mask=visible
    )


class MLP:
    """SwiGLU; gate_proj and up_proj are one product."""

    def __init__(self, gate_up_proj: Linear, down_proj: Linear, dtype: mx.Dtype) -> None:
        self.gate_up_proj, self.down_proj = gate_up_proj, down_proj
        self._swiglu = kernels(dtype).swiglu

    def __call__(self, x: mx.array) -> mx.array:
        """Return the MLP's output [..., H] for x [..., H]."""
        gate, up = mx.split(self.gate_up_proj(x), 2, axis=-1)
        return self.down_proj(self._swiglu(gate, up))


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Attention and MLP, each behind its norm."""

    enter: Enter[mx.array]
    self_attn: Any
    """`Attention` or `DeltaLayer`."""
    post_attention_layernorm: Linear
    mlp: MLP

    @classmethod
    def take(
        cls,
        weights: Weights,
        path: str,
        config: TextConfig,
        *,
        enter: Enter[mx.array] | None = None,
        is_recurrent: bool = False,
    ) -> "DecoderLayer":
        """Take the tensors of the layer at `path`.

        enter: what attention reads of the input and is added to; None takes the input's norm.
        """

        def norm(name: str) -> Linear:
            weight = weights.array(f"{path}.{name}.weight")
            return kernels(weights.dtype).rms_norm(weight, config.rms_norm_eps)

        def linear(*names: str, bias: bool = False) -> Linear:
            return weights.decoding_linear(*(f"{path}.{name}" for name in names), bias=bias)

        mixer: Attention | DeltaLayer
        if is_recurrent:
            mixer = DeltaLayer.take(weights, f"{path}.linear_attn", config)
        else:
            qkv_proj = linear(*(f"self_attn.{part}_proj" for part in "qkv"), bias=config.qkv_bias)
            qk_norm = _qk_norm(weights, f"{path}.self_attn", config) if config.qk_norm else None
            mixer = Attention(qkv_proj, linear("self_attn.o_proj"), config, qk_norm)
        gate_up_proj = linear("mlp.gate_proj", "mlp.up_proj")
        return cls(
            enter or behind_norm(norm("input_layernorm")),
            mixer,
            norm("post_attention_layernorm"),
            MLP(gate_up_proj, linear("mlp.down_proj"), weights.dtype),
        )

    def __call__(
        self,
        x: mx.array,
        rotate: Rotation,
        cache: LayerMemory,
        visible: Visible,
        context: mx.array | None = None,
    ) -> mx.array:
        """Feed x [R, n, H]; returns the layer's output [R, n, H].  context: as in `Attention`."""
        normed, residual = self.enter(x)
        x = residual + self.self_attn(normed, rotate, cache, visible, context)
        return x + self.mlp(self.post_attention_layernorm(x))


def _qk_norm(weights: Weights, path: str, config: TextConfig) -> Linear:
    """Return the norm of the heads of queries and keys, which have a weight [D] each."""
    counts = config.num_attention_heads, config.num_key_value_heads
    parts = (weights.array(f"{path}.{part}_norm.weight") for part in "qk")
    shape, pairs = config.head_dim, zip(parts, counts, strict=True)
    weight = mx.concatenate([mx.broadcast_to(part, (count, shape)) for part, count in pairs])
    ones = mx.ones(shape, weight.dtype)
    return lambda x: mx.fast.rms_norm(x, ones, config.rms_norm_eps) * weight


class Decoder:
    """The decoder layers with their rotary positions, without embedding, last norm and head."""

    def __init__(self, layers: Sequence[DecoderLayer], config: TextConfig, dtype: mx.Dtype) -> None:
        self.config = config
        self.dtype = dtype
        self.kernels = kernels(dtype)
        width = config.rotary_dim or config.head_dim
        self.rotary = Rotary(
            width, config.rope_theta, dtype, config.rotary_axes, config.rotary_scaling
        )
        self.layers = layers

    def new_cache(self, rows: int) -> Cache:
        """Return an empty cache for R rows."""
        config, states = self.config, None
        if config.delta_net:
            if rows > 1:
                raise ValueError(f"a recurrent model has one row, not {rows}")
            states = new_states(framework(self.kernels), config.delta_net, self.dtype)
        heads, width = config.num_key_value_heads, config.head_dim
        attention = sum(isinstance(layer.self_attn, Attention) for layer in self.layers)
        return Cache(attention, rows, heads, width, self.dtype, states)

    def feed(
        self,
        x: mx.array,
        cache: Cache,
        at: int,
        rotate: Rotation,
        visible: Visible,
        deepstack: Sequence[mx.array] = (),
        captured: Sequence[int] = (),
    ) -> mx.array:
        """Run embeddings x [R, n, H] through the layers, at columns `at` to at + n.

        rotate: the rotation of their positions.  deepstack: what is added to the outputs
        [R, n, H] of the first layers.  captured: layers whose outputs are returned too, ascending;
        0 is the embedding.  Returns hidden states [R, n, H] before the last norm, beside them the
        captured ones, [R, n, (1 + c) H].
        """
        end = at + x.shape[1]
        columns = whole_blocks(end) if isinstance(visible, Places) else end
        added, outputs = chain(deepstack, repeat(None)), []
        layers = zip(self.layers, cache.layers(at, columns), added, strict=False)
        for before, (layer, memory, extra) in enumerate(layers):
            if before in captured:
                outputs.append(x)
            x = layer(x, rotate, memory, visible)
            x = x if extra is None else x + extra
            self.kernels.ahead(x)
        if len(self.layers) in captured:
            outputs.append(x)
        return mx.concatenate([x, *outputs], axis=-1) if outputs else x

    def append(
        self, rows: mx.array, cache: Cache, at: int, positions: Positions | None = None
    ) -> mx.array:
        """Feed one sequence's embeddings [n, H] from column `at` on, with a causal mask.

        positions: rotary positions [3, n]; None if they are the columns.  Returns hidden states
        [n, H] before the last norm.
        """
        mask = causal(at, len(rows), rows.dtype)
        if positions is None:
            turn = self.rotary.at([at], len(rows))
        else:
            turn = self.rotary.planes(positions[None])
        return self.feed(mx.expand_dims(rows, 0), cache, at, turn, mask)[0]


class LanguageModel(Decoder):
    """A decoder with its embedding, last norm and output head."""

    def __init__(self, weights: Weights, config: TextConfig) -> None:
        self.embedding = weights.table(EMBEDDING)
        paths = (f"language_model.layers.{index}" for index in range(config.num_hidden_layers))
        recurrent = config.delta_net.layers if config.delta_net else ()
        layers = [
            DecoderLayer.take(weights, path, config, is_recurrent=layer in recurrent)
            for layer, path in enumerate(paths)
        ]
        super().__init__(layers, config, weights.dtype)
        last = weights.array("language_model.norm.weight")
        self._norm = self.kernels.rms_norm(last, config.rms_norm_eps)
        tied = config.tie_word_embeddings
        self._head = weights.for_few_rows(self.embedding if tied else weights.matrix(LM_HEAD))

    def embed(self, tokens: mx.array) -> mx.array:
        """Return the embeddings [n, H] of drafted ids [n].

        Starts computing the ids, while the host enqueues the operations that follow.
        """
        device_io.start(tokens)
        return self.embedding.rows(tokens)

    def states(self, x: mx.array) -> mx.array:
        """Return the last norm's output for x [..., H], which the output head reads."""
        return self._norm(x)

    def project(self, states: mx.array) -> mx.array:
        """Return float32 logits [..., V] of normalised hidden states [..., H]."""
        return self._head(states).astype(mx.float32)

    def logits(self, x: mx.array) -> mx.array:
        """Return float32 logits [..., V] of hidden states [..., H]."""
        return self.project(self.states(x))


def causal(at: int, n: int, dtype: mx.Dtype) -> mx.array | None:
    """Return the causal mask [n, at + n] of n tokens after `at` columns; None for one token."""
    if n == 1:
        return None
    return additive(mx.arange(at + n) <= mx.expand_dims(mx.arange(at, at + n), 1), dtype)


def behind(columns: int, mask: mx.array) -> mx.array:
    """Extend a mask [n, m] to [n, columns + m]: the first `columns` columns are visible."""
    return mx.pad(mask, [(0, 0), (columns, 0)])


def additive(visible: mx.array, dtype: mx.Dtype) -> mx.array:
    """Return the mask to add to attention scores: 0 where `visible`, -inf elsewhere."""
    return mx.where(visible, mx.array(0, dtype), mx.array(-math.inf, dtype))
