"""Qwen's image preprocessing, bit for bit that of transformers' PIL processor for Qwen2-VL."""

from dataclasses import dataclass, replace
from math import ceil, floor, sqrt
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmspec.checkpoints.json_file import Block
from mmspec.errors import ImageError, UsageError
from mmspec.families.clip_images import CLIP_MEAN, CLIP_STD
from mmspec.families.processor_file import (
    normalised,
    processor_block,
    read_mean,
    read_scale,
    read_std,
)
from mmspec.families.qwen_vision import QwenVision

MAX_ASPECT = 200
"""Largest ratio of an image's long side to its short side."""

MOST = 2**28
"""The largest area that a checkpoint may allow, in pixels."""

MAX_TOKENS = 1280
"""Positions of an image at most, unless another limit is named: about 1.3 megapixels."""

HALVES = (0.5, 0.5, 0.5)


@dataclass(frozen=True, slots=True)
class QwenImages:
    """Resizes an image to multiples of `cell` pixels, within a least and a largest area.

    A cell becomes one visual position. `scale` multiplies 0..255; `mean` and `std` are per channel.
    """

    cell: int
    least: int = 65536
    """Least area in pixels."""
    largest: int = 16777216
    """Largest area in pixels."""
    resample: Image.Resampling = Image.Resampling.BICUBIC
    scale: float = 1 / 255
    mean: tuple[float, ...] = HALVES
    std: tuple[float, ...] = HALVES
    whole: int = 0
    """The checkpoint's own largest area, if `largest` is less; else 0."""

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Height and width of the pixel values of an image of this size.

        Raises ImageError for a strip beyond MAX_ASPECT, and for one that cannot be made smaller.
        """
        if max(width, height) > MAX_ASPECT * min(width, height):
            raise ImageError(f"one side is over {MAX_ASPECT} times the other; crop it first")
        return self._scaled(width, height)

    def _scaled(self, width: int, height: int) -> tuple[int, int]:
        sides, cell = (height, width), self.cell
        rounded = [round(side / cell) * cell for side in sides]
        area = rounded[0] * rounded[1]
        if area > self.largest:
            ratio = sqrt(height * width / self.largest)
            rounded = [max(cell, floor(side / ratio / cell) * cell) for side in sides]
        elif area < self.least:
            ratio = sqrt(self.least / (height * width))
            rounded = [ceil(side * ratio / cell) * cell for side in sides]
        return rounded[0], rounded[1]

    def pixels(self, image: Image.Image) -> NDArray[np.float32]:
        """The pixel values [3, height, width] of an upright RGB image."""
        height, width = self.size(*image.size)
        array = np.asarray(image.resize((width, height), self.resample))
        return normalised(array, self.scale, self.mean, self.std)

    def limited(self, positions: int | None) -> Self:
        """The same with at most `positions` for an image; a long strip may take a few more."""
        most = MAX_TOKENS if positions is None else positions
        if most < 1:
            raise UsageError(f"`max_image_tokens={most}`: give 1 or more")
        largest = min(self.largest, most * self.cell**2)
        return replace(self, largest=largest, least=min(self.least, largest), whole=self.largest)

    def is_reduced(self, width: int, height: int) -> bool:
        """True if an image of this size gets fewer positions because of `limited`."""
        whole = replace(self, largest=self.whole or self.largest)
        return whole.size(width, height) > self.size(width, height)


def qwen2_images(cell: int) -> QwenImages:
    """Qwen2.5-VL's preprocessing as it was published."""
    return QwenImages(cell, 4 * cell**2, 16384 * cell**2, mean=CLIP_MEAN, std=CLIP_STD)


def read_qwen_images(directory: Path, tower: QwenVision, default: QwenImages) -> QwenImages:
    """The preprocessing of a checkpoint, or the default if the directory has no settings.

    tower: its sizes, which the file must agree with. Raises CheckpointError.
    """
    block = processor_block(directory)
    if block is None:
        return default
    block.only("patch_size", (tower.patch_size,), 14)
    block.only("merge_size", (tower.spatial_merge_size,), 2)
    block.only("temporal_patch_size", (tower.temporal_patch_size,), 2)
    block.only("do_resize", (True,), True)
    least, largest = _areas(block)
    return QwenImages(
        cell=tower.cell,
        least=least,
        largest=largest,
        resample=Image.Resampling(block.only("resample", list(Image.Resampling), 3)),
        scale=read_scale(block),
        mean=read_mean(block, CLIP_MEAN),
        std=read_std(block, CLIP_STD),
    )


def _areas(block: Block) -> tuple[int, int]:
    """The least and the largest area: of `size`, or the older `min_pixels` and `max_pixels`."""
    size = block.block("size")
    least = block.integer("min_pixels", size.integer("shortest_edge", 56**2, 1, MOST), 1, MOST)
    largest = block.integer(
        "max_pixels", size.integer("longest_edge", 1280 * 28**2, 1, MOST), 1, MOST
    )
    if least > largest:
        raise block.error("size", "a shortest_edge of at most longest_edge")
    return least, largest
