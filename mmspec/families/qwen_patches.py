"""Where the patches of an image are in Qwen3-VL's tower.

Shape letters: P patches of one image, in the order of merged blocks.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec.families.qwen3_vl import Qwen3VLVision


class Layout(NamedTuple):
    """Where the patches of one image are, in the order in which the tower has them."""

    places: NDArray[np.int64]
    """[P, 2] row and column of each patch."""
    neighbours: NDArray[np.int64]
    """[P, 4] rows of the table of position embeddings, which is a square grid."""
    weights: NDArray[np.float32]
    """[P, 4] their shares in the patch's position embedding (bilinear interpolation)."""


def layout(config: Qwen3VLVision, height: int, width: int) -> Layout:
    """Where the patches of pixel values [3, height, width] are."""
    rows, columns = height // config.patch_size, width // config.patch_size
    order = _blocks(rows, columns, config.spatial_merge_size)
    places = np.indices((rows, columns)).reshape(2, -1)[:, order]
    down, down_share = _taps(places[0], rows, config.side)
    across, across_share = _taps(places[1], columns, config.side)
    neighbours = down[:, :, None] * config.side + across[:, None]
    weights = down_share[:, :, None] * across_share[:, None]
    return Layout(places.T, neighbours.reshape(-1, 4), weights.reshape(-1, 4))


def _blocks(rows: int, columns: int, merge: int) -> NDArray[np.int64]:
    """Numbers of the patches, counted row by row, in the order of blocks."""
    numbers = np.arange(rows * columns).reshape(rows // merge, merge, columns // merge, merge)
    return numbers.transpose(0, 2, 1, 3).reshape(-1)


def _taps(
    index: NDArray[np.int64], size: int, side: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The two nearest of `side` embeddings for places [P] among `size`, and their shares."""
    at = index.astype(np.float32) * np.float32(side - 1) / np.float32(max(size - 1, 1))
    below = np.floor(at)
    share = np.stack([1 - (at - below), at - below], axis=1)
    taps = below.astype(np.int64)[:, None] + np.arange(2)
    return taps.clip(0, side - 1), share.astype(np.float32)
