"""Masks of rows with and without padding.

Shape letters: R rows, n columns, w nodes of a tree's level, E nodes of all its levels so far.
"""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from mmspec.decoding.stored_states import STEP
from mmspec_mlx.network.attention import additive, behind, causal


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
