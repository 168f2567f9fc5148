"""Embeddings of the columns of a row, and masks of rows with padding.

Shape letters: R rows, n columns, P columns of a prompt, H width, w nodes of a tree's level, E nodes
of all its levels so far.
"""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mmspec.decoding.contents import Row
from mmspec_mlx import device_io
from mmspec_mlx.network.cache import STEP
from mmspec_mlx.network.decoder import LanguageModel, additive, behind, causal


def embed(language: LanguageModel, row: Row[mx.array], start: int, stop: int) -> mx.array:
    """Return the embeddings [n, H] of columns, images included; padding gets arbitrary ones."""
    x = language.embedding.rows(
        device_io.integers(row.ids(start, stop, language.config.vocab_size))
    )
    row.write_images(x, start, stop)
    return x


def deepstack(
    language: LanguageModel, rows: Sequence[Row[mx.array]], start: int, stop: int
) -> Sequence[mx.array]:
    """Return what the first layers add to their outputs, [R, n, H] each; zero but for images.

    Nothing is returned for columns without images, and for families without DeepStack.
    """
    width = language.config.hidden_size
    layers = max(row.image_width(start, stop) for row in rows) // width - 1
    if layers < 1:
        return ()
    parts = [mx.zeros((stop - start, layers * width), language.dtype) for _ in rows]
    for row, part in zip(rows, parts, strict=True):
        row.write_images(part, start, stop, width)
    return list(mx.split(mx.stack(parts), layers, axis=-1))


class Columns:
    """Which columns of the prompt hold tokens and which padding, for each of R rows.

    After the prompt's P columns every row has tokens.
    """

    def __init__(
        self,
        is_token: NDArray[np.bool_],
        dtype: mx.Dtype,
        ends: NDArray[np.int64] | None = None,
    ) -> None:
        """is_token: [R, P], False at padding.  dtype: of masks.

        ends: [R, P] the rotary position that follows each column; None if each token takes one.
        """
        self._is_token = is_token
        self._ends = is_token.cumsum(axis=1) if ends is None else ends
        self._dtype = dtype
        self._padded = not is_token.all()
        self._mask = mx.zeros((len(is_token), 1, 1, 0), dtype)

    def lengths(self, columns: int) -> list[int]:
        """Return the number of tokens [R] in the first `columns` of each row."""
        beyond = max(columns - self._is_token.shape[1], 0)
        return [int(row) + beyond for row in self._is_token[:, :columns].sum(axis=1)]

    def cut(self, columns: int) -> "Columns":
        """Return the first `columns` columns."""
        return Columns(self._is_token[:, :columns], self._dtype, self._ends[:, :columns])

    def positions(self, columns: int) -> list[int]:
        """Return the rotary position [R] that follows the first `columns` of each row."""
        if not columns or not self._ends.shape[1]:
            return [columns] * len(self._ends)
        last = min(columns, self._ends.shape[1])
        return [int(end) + columns - last for end in self._ends[:, last - 1]]

    def padded(
        self, columns: int, lengths: list[int], ends: Sequence[Sequence[int]] | None = None
    ) -> "Columns":
        """Append lengths[r] tokens, then padding, to row r after its first `columns` columns.

        ends: [R, n] the rotary position that follows each new column; None: each token takes one.
        """
        known, before = self._is_token.shape[1], np.array(self.positions(columns))[:, None]
        shared = np.pad(self._is_token, ((0, 0), (0, columns - known)), constant_values=True)
        after = np.arange(max(lengths)) < np.array(lengths)[:, None]
        follows = np.array(ends) if ends is not None else before + after.cumsum(axis=1)
        text = before - columns + np.arange(known, columns) + 1
        whole = np.hstack([self._ends, text, follows.astype(np.int64)])
        return Columns(np.hstack([shared, after]), self._dtype, whole)

    def mask(self, at: int, n: int) -> mx.array | None:
        """The mask of n tokens from column `at` on, broadcast to [R, heads, n, at + n].

        None hides nothing. Padding sees itself, so that no row of a softmax is empty.
        """
        if not self._padded:
            return causal(at, n, self._dtype)
        padding = self._padding(at + n)
        if n == 1:
            return padding
        columns, own = mx.arange(at + n), mx.expand_dims(mx.arange(at, at + n), 1)
        visible = ((columns < own) & (padding == 0)) | (columns == own)
        return additive(visible, self._dtype)

    def behind(self, columns: int, mask: mx.array) -> mx.array:
        """Put the sequence's `columns` columns, except padding, before a tree's mask [w, E].

        Returns [w, columns + E], or [R, 1, w, columns + E] if rows have padding.
        """
        order = behind(columns, mask)
        if not self._padded:
            return order
        return order + self._padding(columns + mask.shape[1])

    def _padding(self, columns: int) -> mx.array:
        """Return the mask [R, 1, 1, columns] that hides padding, a view of a longer array."""
        if self._mask.shape[-1] < columns:
            known = self._is_token.shape[1]
            room = -(-max(columns, known) // STEP) * STEP - known
            whole = np.pad(self._is_token, ((0, 0), (0, room)), constant_values=True)
            self._mask = additive(mx.array(whole[:, None, None]), self._dtype)
        return self._mask[..., :columns]
