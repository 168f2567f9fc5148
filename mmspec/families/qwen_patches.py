"""Where the patches of an image are in Qwen's towers.

Shape letters: P patches of one image, in the order of merged blocks; W windows of S patches.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec.families.qwen_vision import QwenVision

Places = NDArray[np.int64]
"""[P, 2] row and column of each patch."""


def places(config: QwenVision, height: int, width: int) -> Places:
    """Where the patches of pixel values [3, height, width] are."""
    rows, columns = height // config.patch_size, width // config.patch_size
    merge = config.spatial_merge_size
    blocks = np.indices((rows, columns)).reshape(2, rows // merge, merge, columns // merge, merge)
    return blocks.transpose(1, 3, 2, 4, 0).reshape(-1, 2)


class Neighbours(NamedTuple):
    """What a patch's position embedding is made of (bilinear interpolation)."""

    rows: NDArray[np.int64]
    """[P, 4] rows of the table of embeddings, which is a square grid."""
    weights: NDArray[np.float32]
    """[P, 4] their shares."""


def neighbours(at: Places, side: int) -> Neighbours:
    """The position embeddings near all patches of an image; side: that of the embeddings' grid."""
    down, down_share = _taps(at[:, 0], side)
    across, across_share = _taps(at[:, 1], side)
    index = down[:, :, None] * side + across[:, None]
    weights = down_share[:, :, None] * across_share[:, None]
    return Neighbours(index.reshape(-1, 4), weights.reshape(-1, 4))


def _taps(index: NDArray[np.int64], side: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The two nearest of `side` embeddings for places [P] of one axis, and their shares."""
    at = index.astype(np.float32) * np.float32(side - 1) / np.float32(max(index.max(), 1))
    below = np.floor(at)
    share = np.stack([1 - (at - below), at - below], axis=1)
    taps = below.astype(np.int64)[:, None] + np.arange(2)
    return taps.clip(0, side - 1), share.astype(np.float32)


class Windows(NamedTuple):
    """Squares of patches that attend to each other; those at the edges may have fewer."""

    patches: NDArray[np.int64]
    """[W, S] numbers of the patches of each window, after the last of them 0."""
    there: NDArray[np.bool_]
    """[W, S] true where a window has a patch."""
    back: NDArray[np.int64]
    """[P] each patch's place among the W * S."""


def windows(at: Places, side: int) -> Windows:
    """The windows of an image's patches; side: that of a window in patches."""
    rows, columns = (at // side).T
    numbers = rows * (columns.max() + 1) + columns
    sizes = np.bincount(numbers)
    order = np.argsort(numbers, kind="stable")
    there = np.arange(sizes.max()) < sizes[:, None]
    index = np.zeros(there.shape, dtype=np.int64)
    index[there] = order
    back = np.empty_like(order)
    back[order] = np.flatnonzero(there)
    return Windows(index, there, back)
