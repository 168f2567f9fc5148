"""CLIP's image preprocessing, bit for bit that of transformers' PIL processor.

Scaling, normalising and the processor's file are the same in all families.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmspec.families.family import Preprocessing
from mmspec.ground.input_files import is_there
from mmspec.ground.json_file import Block, Range

MOST_ENLARGEMENT = 4
"""The most that an image may be larger than the tower's input before it is cropped."""

IMAGES = "preprocessor_config.json"
"""The image processor's own file, which is the video processor's where that has none."""

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)

Mean = Annotated[float, Range(-1e3, 1e3)]
Spread = Annotated[float, Range(1e-3, 1e3)]
Channels = tuple[float, ...]
"""One number for each of the three channels."""


@dataclass(frozen=True, slots=True)
class PixelValues:
    """How numbers of 0..255 become pixel values: times `scale`, less `mean`, divided by `std`.

    `mean` and `std` are per channel. `resample` is the filter that changes an image's size.
    """

    resample: Image.Resampling = Image.Resampling.BICUBIC
    scale: float = 1 / 255
    mean: Channels = CLIP_MEAN
    std: Channels = CLIP_STD

    def of(self, image: Image.Image) -> NDArray[np.float32]:
        """The pixel values [3, height, width] of an RGB image."""
        # float64 first, then float32 throughout: the processor's own roundings, in its order.
        values = (np.asarray(image).astype(np.float64) * self.scale).astype(np.float32)
        centre, spread = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        return np.ascontiguousarray(((values - centre) / spread).transpose(2, 0, 1))


CLIP = PixelValues()
"""CLIP's own."""


def read_values(block: Block, defaults: PixelValues) -> PixelValues:
    """An image processor's settings; defaults: of absent keys.  Raises CheckpointError."""
    scales, normalises = block.flag("do_rescale", True), block.flag("do_normalize", True)
    return PixelValues(
        Image.Resampling(block.only("resample", list(Image.Resampling), 3)),
        block.number("rescale_factor", 1 / 255, 1e-6, 1e3) if scales else 1.0,
        _channels(block, "image_mean", Mean, defaults.mean) if normalises else (0.0,) * 3,
        _channels(block, "image_std", Spread, defaults.std) if normalises else (1.0,) * 3,
    )


def processor_block(directory: Path, kind: Literal["image", "video"] = "image") -> Block | None:
    """The settings of the image or video processor in a checkpoint's files; None without any."""
    file = directory / "processor_config.json"
    if is_there(file):
        block = Block.of(file).block(f"{kind}_processor")
        if block.values:
            return block
    names = (IMAGES,) if kind == "image" else ("video_preprocessor_config.json", IMAGES)
    present = filter(is_there, (directory / name for name in names))
    return next((Block.of(file) for file in present), None)


def _channels(block: Block, key: str, kind: Any, default: Channels) -> Channels:
    if not isinstance(block.get(key, list(default)), list):
        return (block.read(key, kind, None),) * 3
    values: Channels = block.read(key, tuple[kind, ...], list(default))
    if len(values) != 3:
        raise block.error(key, "three numbers")
    return values


@dataclass(frozen=True, slots=True)
class ClipImages(Preprocessing):
    """How an image becomes pixel values: pad to a square, resize, crop, scale, normalize.

    `resize`: the shorter edge, or (height, width); None keeps the size. `crop`: (height, width).
    """

    resize: int | tuple[int, int] | None
    crop: tuple[int, int] | None
    pad_to_square: bool = False
    values: PixelValues = CLIP

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Height and width of the pixel values of an image of this size."""
        if self.pad_to_square:
            width = height = max(width, height)
        return self.crop or _resized_size(width, height, self.resize)

    def pixels(self, image: Image.Image) -> NDArray[np.float32]:
        """The pixel values [3, height, width] of an upright RGB image."""
        if self.pad_to_square:
            edge, colour = max(image.size), tuple(int(value * 255) for value in self.values.mean)
            square = Image.new("RGB", (edge, edge), colour)
            square.paste(image, ((edge - image.width) // 2, (edge - image.height) // 2))
            image = square
        height, width = _resized_size(*image.size, self.resize)
        crop_height, crop_width = self.crop or (height, width)
        # Odd differences round as the processor rounds them: down when cutting, up when padding.
        left, top = (width - crop_width) // 2, (height - crop_height) // 2
        image = image.resize((width, height), self.values.resample)
        # Where the crop exceeds the image, Pillow pads with zeros.
        return self.values.of(image.crop((left, top, left + crop_width, top + crop_height)))


def read_clip_images(directory: Path, image_size: int) -> ClipImages:
    """The preprocessing of a checkpoint; CLIP's resize and centre crop if the directory has none.

    Raises CheckpointError for a malformed file, or if the result is not image_size square.
    """
    block = processor_block(directory)
    if block is None:
        return ClipImages(resize=image_size, crop=(image_size, image_size))
    crop = _size(block, "crop_size", image_size, "center_crop")
    recipe = ClipImages(
        resize=_size(block, "size", image_size, "resize"),
        crop=(crop, crop) if isinstance(crop, int) else crop,
        # CLIP's own processor has no padding to a square; LLaVA's has.
        pad_to_square="Llava" in str(block.get("image_processor_type", ""))
        and block.flag("do_pad", False),
        values=read_values(block, CLIP),
    )
    if (recipe.crop or recipe.resize) != (image_size, image_size):
        key = "crop_size" if recipe.crop else "size"
        raise block.error(key, f"{image_size} by {image_size}, as the vision tower's image_size")
    return recipe


def _size(block: Block, key: str, default: int, step: str) -> Any:
    """Read a size: the shorter edge (an integer in old files), (height, width), or None."""
    if not block.flag(f"do_{step}", True):
        return None
    most = MOST_ENLARGEMENT * default
    if not isinstance(block.get(key, default), dict):
        return block.integer(key, default, 1, most)
    size = block.block(key)
    if "shortest_edge" in size.values:
        return size.integer("shortest_edge", default, 1, most)
    return size.integer("height", default, 1, most), size.integer("width", default, 1, most)


def _resized_size(width: int, height: int, resize: int | tuple[int, int] | None) -> tuple[int, int]:
    if resize is None:
        return height, width
    if isinstance(resize, tuple):
        return resize
    if width <= height:
        return int(resize * height / width), resize
    return resize, int(resize * width / height)
