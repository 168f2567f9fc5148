"""Qwen's image preprocessing, bit for bit that of transformers' PIL processor for Qwen2-VL."""

from dataclasses import dataclass, replace
from math import ceil, floor, inf, sqrt
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmspec.families.clip_images import CLIP, PixelValues, processor_block, read_values
from mmspec.families.qwen_vision import QwenVision
from mmspec.ground.errors import ImageError, UsageError
from mmspec.ground.json_file import Block

MAX_ASPECT = 200
"""Largest ratio of an image's long side to its short side."""

MOST = 2**28
"""The largest area that a checkpoint may allow, in pixels."""

MAX_TOKENS = 1280
"""Positions of an image at most, unless another limit is named: about 1.3 megapixels."""

CLIP_IMAGES = 4
"""Images that have as many positions as a clip may have."""

HALVES = PixelValues(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


@dataclass(frozen=True, slots=True)
class QwenImages:
    """Resizes an image within limits of area to cells, which become a visual position each."""

    cell: int
    least: int = 65536
    """Least area in pixels."""
    largest: int = 16777216
    """Largest area in pixels."""
    values: PixelValues = HALVES
    limit: float = inf
    """The area that `with_limit` allows, if it is less than `largest`."""
    frames: int = 1
    """Frames of a clip whose areas together are limited."""
    together: bool = False
    """True if the limit is on all of a clip's frames, False if on each of them."""
    clips: "QwenImages | None" = None
    """The preprocessing of frames of clips; None in that preprocessing itself."""

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Height and width of the pixel values of an image of this size.

        Raises ImageError for a strip beyond MAX_ASPECT, and for one that cannot be made smaller.
        """
        if max(width, height) > MAX_ASPECT * min(width, height):
            raise ImageError(f"one side is over {MAX_ASPECT} times the other; crop it first")
        largest = max(int(min(self.largest, self.limit)), 1)
        least = min(self.least, largest)
        sides, cell = (height, width), self.cell
        sizes = [round(side / cell) * cell for side in sides]
        pairs = max(round(self.frames / 2), 1) * 2 if self.frames > 1 else 1
        area = pairs * sizes[0] * sizes[1]
        if area > largest:
            ratio = sqrt(self.frames * height * width / largest)
            sizes = [max(cell, floor(side / ratio / cell) * cell) for side in sides]
        elif area < least:
            ratio = sqrt(least / (self.frames * height * width))
            sizes = [ceil(side * ratio / cell) * cell for side in sides]
        return sizes[0], sizes[1]

    def pixels(self, image: Image.Image) -> NDArray[np.float32]:
        """The pixel values [3, height, width] of an upright RGB image."""
        height, width = self.size(*image.size)
        return self.values.of(image.resize((width, height), self.values.resample))

    def with_limit(self, positions: int | None) -> Self:
        """The same with at most `positions` for an image; a long strip may take a few more."""
        most = MAX_TOKENS if positions is None else positions
        if most < 1:
            raise UsageError(f"`max_image_tokens={most}`: give 1 or more")
        return replace(self, limit=most * self.cell**2)

    def for_clip(self, frames: int) -> "QwenImages":
        """The preprocessing of each of a clip's `frames` frames; 0: of an image."""
        if self.clips is None or not frames:
            return self
        limit = 2 * CLIP_IMAGES * self.limit  # of all frames, of which two are one position
        if self.clips.together:
            return replace(self.clips, frames=frames, limit=limit)
        return replace(self.clips, limit=limit / frames)

    def is_reduced(self, width: int, height: int) -> bool:
        """True if an image of this size gets fewer positions because of `with_limit`."""
        return replace(self, limit=inf).size(width, height) > self.size(width, height)


# What settings mean that lack keys: the defaults of transformers' processors.
_IMAGES = QwenImages(28, 4 * 28**2, 1280 * 28**2, values=CLIP)
_QWEN2_FRAMES = replace(_IMAGES, least=128 * 28**2, largest=768 * 28**2)
_QWEN3_FRAMES = QwenImages(32, 128 * 32**2, 768 * 32**2)


def read_qwen_images(directory: Path, tower: QwenVision, fallback: QwenImages) -> QwenImages:
    """The preprocessing of a checkpoint, or the fallback if the directory has no settings.

    tower: its sizes, which the files must agree with. Raises CheckpointError.
    """
    clips, block = fallback.clips, processor_block(directory)
    images = _read(block, tower, _IMAGES) if block else fallback
    block = processor_block(directory, "video")
    if clips and block:
        defaults = _QWEN3_FRAMES if clips.together else _QWEN2_FRAMES
        clips = replace(_read(block, tower, defaults), together=clips.together)
    return replace(images, clips=clips)


def _read(block: Block, tower: QwenVision, defaults: QwenImages) -> QwenImages:
    """The preprocessing in a file; `defaults` is that of one without keys."""
    block.only("patch_size", (tower.patch_size,), defaults.cell // 2)
    block.only("merge_size", (tower.spatial_merge_size,), 2)
    block.only("temporal_patch_size", (tower.temporal_patch_size,), 2)
    block.only("do_resize", (True,), True)
    values = read_values(block, defaults.values)
    size = block.block("size")
    least = size.integer("shortest_edge", defaults.least, 1, MOST)
    largest = size.integer("longest_edge", defaults.largest, 1, MOST)
    if defaults is not _QWEN3_FRAMES:  # whose processor does not read the older keys
        least = block.integer("min_pixels", least, 1, MOST)
        largest = block.integer("max_pixels", largest, 1, MOST)
    if least > largest:
        raise block.error("size", "a shortest_edge of at most longest_edge")
    return QwenImages(tower.cell, least, largest, values)
