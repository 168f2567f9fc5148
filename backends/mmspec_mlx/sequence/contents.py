"""The content of a sequence on the host: token ids, placed images and padding.

Shape letters: R rows, n tokens, N visual positions of one image, P columns of a prompt, H width.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mmspec.seam import Features, Segment
from mmspec_mlx import device_io
from mmspec_mlx.network.cache import STEP
from mmspec_mlx.network.llama import Llama, additive, behind, causal

Projection = Callable[[Features], mx.array]
"""Function from an image's features to embeddings [N, H]."""


class PlacedImage(NamedTuple):
    """An image's embeddings [N, H] and their first position."""

    start: int
    rows: mx.array

    @property
    def stop(self) -> int:
        """The position after the image."""
        return self.start + self.rows.shape[0]

    def before(self, length: int) -> "PlacedImage":
        """Return the part of the image in the first `length` positions."""
        return PlacedImage(self.start, self.rows[: max(length - self.start, 0)])


Row = tuple[list[int], list[PlacedImage]]
"""Token ids, 0 at the positions of images, and those images."""


def row(segment: Segment, offset: int, project: Projection) -> Row:
    """Return a segment's token ids and images; it begins at position `offset`."""
    images = segment.images(offset)
    return segment.token_ids(0), [
        PlacedImage(start, project(features)) for start, features in images
    ]


def embed(llama: Llama, ids: Sequence[int], images: Sequence[PlacedImage], start: int) -> mx.array:
    """Return the embeddings [n, H] of ids [n] at positions `start` onwards."""
    rows, end = llama.embedding.rows(device_io.ids(ids)), start + len(ids)
    for image in images:
        first = max(image.start, start)
        last = min(image.stop, end)
        if first < last:
            part = image.rows[first - image.start : last - image.start]
            rows[first - start : last - start] = part
    return rows


class Columns:
    """Which of a prompt's P columns are tokens in each of R rows; later ones always are."""

    def __init__(self, is_token: NDArray[np.bool_], dtype: mx.Dtype) -> None:
        """is_token: [R, P], False at padding.  dtype: of masks."""
        self._is_token = is_token
        self._dtype = dtype
        self._padded = not is_token.all()
        self._mask = mx.zeros((len(is_token), 1, 1, 0), dtype)

    def lengths(self, columns: int) -> list[int]:
        """Return the number of tokens [R] in the first `columns` of each row."""
        beyond = max(columns - self._is_token.shape[1], 0)
        return [int(row) + beyond for row in self._is_token[:, :columns].sum(axis=1)]

    def cut(self, columns: int) -> "Columns":
        """Return the first `columns` columns."""
        return Columns(self._is_token[:, :columns], self._dtype)

    def padded(self, columns: int, lengths: list[int]) -> "Columns":
        """Append lengths[r] tokens to row r after `columns` columns, padded to the longest."""
        known = self._is_token.shape[1]
        before = np.pad(self._is_token, ((0, 0), (0, columns - known)), constant_values=True)
        after = np.arange(max(lengths)) < np.array(lengths)[:, None]
        return Columns(np.hstack([before, after]), self._dtype)

    def mask(self, at: int, n: int) -> mx.array | None:
        """Return the mask of n tokens at column `at`, broadcast to [R, heads, n, at + n], or None.

        Padding sees itself, so that no row of a softmax is empty.
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
        """Put `columns` columns in front of a tree's mask [w, E], and hide padding in them.

        Returns [w, columns + E], or [R, 1, w, columns + E] if rows have padding.
        """
        order = behind(columns, mask)
        if not self._padded:
            return order
        return order + self._padding(columns + mask.shape[1])

    def _padding(self, columns: int) -> mx.array:
        """Return the padding mask [R, 1, 1, columns], from an array that is built once per STEP."""
        if self._mask.shape[-1] < columns:
            known = self._is_token.shape[1]
            room = -(-max(columns, known) // STEP) * STEP - known
            whole = np.pad(self._is_token, ((0, 0), (0, room)), constant_values=True)
            self._mask = additive(mx.array(whole[:, None, None]), self._dtype)
        return self._mask[..., :columns]
