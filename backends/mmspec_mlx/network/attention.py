"""Attention over the columns of a cache, and its masks.

Shape letters: R rows, n tokens per row, H width, D head size.
"""

import math

import mlx.core as mx

from mmspec.decoding.block_attention import Places, attend
from mmspec.families.decoder import TextConfig
from mmspec_mlx.device.weights import Linear, Weights
from mmspec_mlx.network.cache import LayerCache
from mmspec_mlx.network.rotary import Rotation

Visible = mx.array | Places | None
"""The columns that tokens see: a mask [n, at + n] of 0 or -inf, broadcast over rows and heads; the
places of one sequence's rows for attention by blocks; None if every token sees every column.
"""


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

    @classmethod
    def take(cls, weights: Weights, path: str, config: TextConfig) -> "Attention":
        """Take the tensors at `path`."""
        parts = (f"{path}.{part}_proj" for part in "qkv")
        qkv_proj = weights.decoding_linear(*parts, bias=config.qkv_bias)
        qk_norm = _qk_norm(weights, path, config) if config.qk_norm else None
        return cls(qkv_proj, weights.decoding_linear(f"{path}.o_proj"), config, qk_norm)

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


def _qk_norm(weights: Weights, path: str, config: TextConfig) -> Linear:
    """Return the norm of the heads of queries and keys, which have a weight [D] each."""
    counts = config.num_attention_heads, config.num_key_value_heads
    parts = (weights.array(f"{path}.{part}_norm.weight") for part in "qk")
    shape, pairs = config.head_dim, zip(parts, counts, strict=True)
    weight = mx.concatenate([mx.broadcast_to(part, (count, shape)) for part, count in pairs])
    ones = mx.ones(shape, weight.dtype)
    return lambda x: mx.fast.rms_norm(x, ones, config.rms_norm_eps) * weight


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
