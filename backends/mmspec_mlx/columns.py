"""Which of a cache's shared columns each row sees."""

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mmspec_mlx.cache import STEP
from mmspec_mlx.llama import additive, behind, causal


class Columns:
    """What R rows see of a prompt's P columns; every row sees everything beyond.  Immutable."""

    def __init__(self, seen: NDArray[np.bool_], dtype: mx.Dtype) -> None:
        """Take `seen` [R, P], False where a row is padding; masks are of type `dtype`."""
        self._seen = seen
        self._dtype = dtype
        self._padded = not seen.all()
        self._mask = mx.zeros((len(seen), 1, 1, 0), dtype)

    def lengths(self, columns: int) -> list[int]:
        """Tokens [R] that each row sees in the first `columns`."""
        beyond = max(columns - self._seen.shape[1], 0)
        return [int(row) + beyond for row in self._seen[:, :columns].sum(axis=1)]

    def cut(self, columns: int) -> "Columns":
        """Forget the columns from `columns` on."""
        return Columns(self._seen[:, :columns], self._dtype)

    def padded(self, columns: int, lengths: list[int]) -> "Columns":
        """Append, to the first `columns`, lengths[r] tokens per row, padded to the longest."""
        known = self._seen.shape[1]
        before = np.pad(self._seen, ((0, 0), (0, columns - known)), constant_values=True)
        after = np.arange(max(lengths)) < np.array(lengths)[:, None]
        return Columns(np.hstack([before, after]), self._dtype)

    def mask(self, at: int, n: int) -> mx.array | None:
        """Mask for n tokens at column `at`: [at + n] broadcast over [R, heads, n], or None.

        A token sees itself even where it is padding, so that no row of a softmax is empty.
        """
        if not self._padded:
            return causal(at, n, self._dtype)
        seen = self._visible(at + n)
        if n == 1:
            return seen
        columns, own = mx.arange(at + n), mx.expand_dims(mx.arange(at, at + n), 1)
        visible = ((columns < own) & (seen == 0)) | (columns == own)
        return additive(visible, self._dtype)

    def behind(self, columns: int, mask: mx.array) -> mx.array:
        """The mask of a tree's nodes, [w, E] among themselves, fed behind `columns`.

        [w, columns + E], or [R, 1, w, columns + E] where rows have padding.
        """
        order = behind(columns, mask)
        if not self._padded:
            return order
        return order + self._visible(columns + mask.shape[1])

    def _visible(self, columns: int) -> mx.array:
        """The first `columns` [R, 1, 1, columns], from an array built once per STEP."""
        if self._mask.shape[-1] < columns:
            known = self._seen.shape[1]
            room = -(-max(columns, known) // STEP) * STEP - known
            whole = np.pad(self._seen, ((0, 0), (0, room)), constant_values=True)
            self._mask = additive(mx.array(whole[:, None, None]), self._dtype)
        return self._mask[..., :columns]
