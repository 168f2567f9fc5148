"""Computes a picture's pixel values, bit for bit those of transformers' PIL CLIP processor."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmspec.checkpoints.json_file import Block, read_json
from mmspec.input_files import is_there
from mmspec.json_reader.limits import Range
from mmspec.prompt.images import Picture

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)

MOST_RESIZED = 4
"""The most that an image may be larger than the tower's input before it is cropped."""
Mean = Annotated[float, Range(-1e3, 1e3)]
Spread = Annotated[float, Range(1e-3, 1e3)]


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How an image becomes pixel values: pad to a square, resize, crop, scale, normalize.

    `resize` is the length of the shorter edge, or (height, width); None keeps the size. `crop` is
    (height, width). `scale` multiplies 0..255; `mean` and `std` are per channel.
    """

    resize: int | tuple[int, int] | None
    crop: tuple[int, int] | None
    pad_to_square: bool = False
    resample: Image.Resampling = Image.Resampling.BICUBIC
    scale: float = 1 / 255
    mean: tuple[float, ...] = CLIP_MEAN
    std: tuple[float, ...] = CLIP_STD


def clip_preprocessing(image_size: int) -> Preprocessing:
    """Return CLIP's preprocessing of square inputs: shorter edge to `image_size`, centre crop."""
    return Preprocessing(resize=image_size, crop=(image_size, image_size))


def read_preprocessing(directory: Path, image_size: int) -> Preprocessing:
    """The preprocessing of a checkpoint; CLIP's if the directory has none.

    Raises CheckpointError for a malformed file, or if the result is not image_size square.
    """
    block = _processor_block(directory)
    if block is None:
        return clip_preprocessing(image_size)
    crop = _size(block, "crop_size", image_size, "center_crop")
    recipe = Preprocessing(
        resize=_size(block, "size", image_size, "resize"),
        crop=(crop, crop) if isinstance(crop, int) else crop,
        # CLIP's own processor has no padding to a square; LLaVA's has.
        pad_to_square="Llava" in str(block.get("image_processor_type", ""))
        and block.flag("do_pad", False),
        resample=Image.Resampling(block.only("resample", list(Image.Resampling), 3)),
        scale=_scale(block),
        mean=_channels(block, "image_mean", Mean, CLIP_MEAN, 0.0),
        std=_channels(block, "image_std", Spread, CLIP_STD, 1.0),
    )
    if (recipe.crop or recipe.resize) != (image_size, image_size):
        key = "crop_size" if recipe.crop else "size"
        raise block.error(key, f"{image_size} by {image_size}, as the vision tower's image_size")
    return recipe


def pixels(picture: Picture, preprocessing: Preprocessing) -> NDArray[np.float32]:
    """Pixel values of a picture for the vision tower, float32 [3, height, width]."""
    image = picture.image
    if preprocessing.pad_to_square:
        image = _square(image, preprocessing.mean)
    array = _resized_and_cropped(image, preprocessing)
    # float64 first, then float32 throughout: the processor's own roundings, in its order.
    scaled = (array.astype(np.float64) * preprocessing.scale).astype(np.float32)
    mean = np.array(preprocessing.mean, dtype=np.float32)
    std = np.array(preprocessing.std, dtype=np.float32)
    return np.ascontiguousarray(((scaled - mean) / std).transpose(2, 0, 1))


def _processor_block(directory: Path) -> Block | None:
    file = directory / "processor_config.json"
    if is_there(file):
        block = Block(read_json(file), file).block("image_processor")
        if block.values:
            return block
    file = directory / "preprocessor_config.json"
    return Block(read_json(file), file) if is_there(file) else None


def _size(block: Block, key: str, default: int, step: str) -> Any:
    """Read a size: the shorter edge (an integer in old files), (height, width), or None."""
    if not block.flag(f"do_{step}", True):
        return None
    most = MOST_RESIZED * default
    if not isinstance(block.get(key, default), dict):
        return block.integer(key, default, 1, most)
    size = block.block(key)
    if "shortest_edge" in size.values:
        return size.integer("shortest_edge", default, 1, most)
    return size.integer("height", default, 1, most), size.integer("width", default, 1, most)


def _scale(block: Block) -> float:
    if not block.flag("do_rescale", True):
        return 1.0
    return block.number("rescale_factor", 1 / 255, 1e-6, 1e3)


def _channels(
    block: Block, key: str, kind: Any, default: tuple[float, ...], without: float
) -> tuple[float, ...]:
    if not block.flag("do_normalize", True):
        return (without,) * 3
    if not isinstance(block.get(key, list(default)), list):
        return (block.read(key, kind, None),) * 3
    values: tuple[float, ...] = block.read(key, tuple[kind, ...], list(default))
    if len(values) != 3:
        raise block.error(key, "three numbers")
    return values


def _square(image: Image.Image, mean: tuple[float, ...]) -> Image.Image:
    edge = max(image.size)
    background = tuple(int(value * 255) for value in mean)
    square = Image.new("RGB", (edge, edge), background)
    square.paste(image, ((edge - image.width) // 2, (edge - image.height) // 2))
    return square


def _resized_and_cropped(image: Image.Image, recipe: Preprocessing) -> NDArray[np.uint8]:
    height, width = _resized_size(image, recipe.resize)
    crop_height, crop_width = recipe.crop or (height, width)
    # Odd differences round as the processor rounds them: down when cutting, up when padding.
    left, top = (width - crop_width) // 2, (height - crop_height) // 2
    resized = image.resize((width, height), recipe.resample)
    # Where the crop exceeds the image, Pillow pads with zeros.
    return np.asarray(resized.crop((left, top, left + crop_width, top + crop_height)))


def _resized_size(image: Image.Image, resize: int | tuple[int, int] | None) -> tuple[int, int]:
    if resize is None:
        return image.height, image.width
    if isinstance(resize, tuple):
        return resize
    if image.width <= image.height:
        return int(resize * image.height / image.width), resize
    return resize, int(resize * image.width / image.height)
