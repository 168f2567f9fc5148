"""Attention over the columns of a cache, and its masks.

Shape letters: R rows, n tokens per row, H width, D head size; w nodes of a tree's level, E nodes of
all its levels so far.
"""

import math
from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from mmspec.decoding.block_attention import Places, attend
from mmspec.decoding.layers import AttentionParts
from mmspec.decoding.stored_states import STEP
from mmspec_mlx.network.cache import LayerCache
from mmspec_mlx.network.rotary import Rotation

Visible = mx.array | Places | None
"""The columns that tokens see: a mask [n, at + n] of 0 or -inf, broadcast over rows and heads; the
places of one sequence's rows for attention by blocks; None if every token sees every column.
"""


class Attention(AttentionParts[mx.array]):
    """Self-attention over the columns of a cache."""

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
        rows = x if context is None else mx.concatenate([context, x], axis=1)
        queries, gates, keys, values = self.remember(rows, rotate, cache)
        queries = queries if context is None else queries[:, :, -x.shape[1] :]
        attention = mx.flatten(_attention(queries, keys, values, visible).swapaxes(1, 2), -2)
        if gates is not None:
            attention = attention * mx.sigmoid(mx.flatten(gates, -2))
        output: mx.array = self.o_proj(attention)
        return output

    def remember(
        self, x: mx.array, rotate: Rotation, cache: LayerCache
    ) -> tuple[mx.array, mx.array | None, mx.array, mx.array]:
        """Write the keys and values of x [R, n, H].

        Returns its queries [R, heads, n, D] and their gates, if it has any, and the keys and values
        of all visible columns.
        """
        qkv, gates = self._split_gates(self.qkv_proj(x).reshape(*x.shape[:2], -1, self._head_dim))
        heads = self._heads + self._kv_heads
        queries_keys, values = qkv[:, :, :heads], qkv[:, :, heads:].swapaxes(1, 2)
        queries_keys = self._qk_norm(queries_keys) if self._qk_norm else queries_keys
        queries_keys = rotate(queries_keys.swapaxes(1, 2))
        keys, values = cache.update(queries_keys[:, self._heads :], values)
        return queries_keys[:, : self._heads], gates, keys, values


def _attention(queries: mx.array, keys: mx.array, values: mx.array, visible: Visible) -> mx.array:
    """Return attention [R, heads, n, D] of queries to keys and values [R, KV heads, C, D]."""
    size = queries.shape[-1]
    if isinstance(visible, Places):
        groups = queries.reshape(keys.shape[1], -1, *queries.shape[2:])
        output: mx.array = attend(mx, groups, keys[0], values[0], visible)
        return output.reshape(queries.shape)
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


class Padding:
    """Hides padding; all later columns have tokens."""

    def __init__(self, is_padding: Sequence[Sequence[bool]], dtype: mx.Dtype) -> None:
        """is_padding: [R, n].  dtype: of masks."""
        self._is_token = ~np.array(is_padding, dtype=np.bool_)
        self._dtype = dtype
        self._mask = mx.zeros((len(is_padding), 1, 1, 0), dtype)

    def mask(self, columns: int) -> mx.array:
        """Return the mask [R, 1, 1, columns], a view of a longer array."""
        if self._mask.shape[-1] < columns:
            width = self._is_token.shape[1]
            room = -(-max(columns, width) // STEP) * STEP - width
            whole = np.pad(self._is_token, ((0, 0), (0, room)), constant_values=True)
            self._mask = additive(mx.array(whole[:, None, None]), self._dtype)
        return self._mask[..., :columns]


def causal_mask(padding: Padding | None, at: int, n: int, dtype: mx.Dtype) -> mx.array | None:
    """Return the mask of n tokens from column `at` on, broadcast to [R, heads, n, at + n].

    Returns None where every token may see every column. Padding sees itself, so that no row of a
    softmax is empty.
    """
    if padding is None:
        return causal(at, n, dtype)
    shades = padding.mask(at + n)
    if n == 1:
        return shades
    columns, rows = mx.arange(at + n), mx.expand_dims(mx.arange(at, at + n), 1)
    return additive(((columns < rows) & (shades == 0)) | (columns == rows), dtype)


def tree_mask(padding: Padding | None, columns: int, mask: mx.array) -> mx.array:
    """Put the sequence's `columns` columns, except padding, before a tree's mask [w, E].

    Returns [w, columns + E], or [R, 1, w, columns + E] if rows have padding.
    """
    order = behind(columns, mask)
    return order if padding is None else order + padding.mask(columns + mask.shape[1])
