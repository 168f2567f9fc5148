"""Opens image files, upright and in RGB, and computes their pixel values.

The pixel values equal those of transformers' PIL CLIP processor, bit for bit.
"""

import hashlib
import warnings
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from mmspec.checkpoints.json_file import Block, read_json
from mmspec.checkpoints.paths import expand_home
from mmspec.errors import ImageError
from mmspec.prompt.file_kinds import conversion, enable_heif, is_heif

MAX_ASPECT = 500
"""Largest ratio of an image's long side to its short side.

An image is resized whole before it is cropped, so a longer one would need too much memory.
"""

# Raster formats decoded inside Pillow; others (EPS, for one) would start another program.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "PPM", "TIFF", "AVIF", "JPEG2000", "TGA")

HEAD = 64
"""Bytes at the beginning of a file that tell HEIF from other formats."""

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True, slots=True)
class Picture:
    """An upright RGB image; two are equal if size and pixels are equal."""

    image: Image.Image = field(compare=False, repr=False)
    digest: str
    name: str = field(default="", compare=False)
    from_file: bool = field(default=False, compare=False)
    """True if `name` is the path of a file that was read."""


def open_picture(path: str | Path) -> Picture:
    """Return the picture in the file at `path`; of an animation, the first frame.

    Raises ImageError naming the file if it is missing, no image, damaged, above Pillow's limit of
    178 megapixels or a strip beyond MAX_ASPECT.
    """
    file = expand_home(path)
    label = str(path) if str(path).isprintable() else repr(str(path))
    _check_name(str(path))
    _check_file(file, label)
    return replace(_read(file, _head(file, label), label, str(path)), from_file=True)


def decode_picture(content: bytes, name: str) -> Picture:
    """The picture in an image file's bytes; raises ImageError, as `open_picture`."""
    return _read(BytesIO(content), content[:HEAD], name, name)


def _read(source: Path | BytesIO, head: bytes, label: str, name: str) -> Picture:
    formats: tuple[str, ...] = FORMATS
    if is_heif(head):
        enable_heif(label)
        formats = (*FORMATS, "HEIF")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # large images are allowed, metadata are not used
            with Image.open(source, formats=formats) as image:
                picture = picture_from(image, name)
    except Image.DecompressionBombError as error:
        raise ImageError(f"{label}: more than 178 megapixels; make it smaller first") from error
    except UnidentifiedImageError as error:
        what = conversion(name) or "not an image that can be read"
        raise ImageError(f"{label}: {what}") from error
    except Exception as error:  # damaged data makes decoders raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ImageError(f"{label}: damaged or unsupported image ({reason})") from error
    if max(picture.image.size) > MAX_ASPECT * min(picture.image.size):
        raise ImageError(f"{label}: one side is over {MAX_ASPECT} times the other; crop it first")
    return picture


def picture_from(image: Image.Image, name: str = "") -> Picture:
    """The picture of a PIL image: rotated upright by EXIF, transparency over white."""
    image.load()
    rgb = _rgb(ImageOps.exif_transpose(image))
    content = hashlib.sha256(f"{rgb.width}x{rgb.height}:".encode())
    content.update(rgb.tobytes())
    return Picture(rgb, content.hexdigest(), name)


def _check_name(name: str) -> None:
    if not name:
        raise ImageError("an image without a name: give a path")
    if name.startswith(("http:/", "https:/")):
        raise ImageError(f"{name}: nothing is fetched; save the image and give its path")


def _check_file(file: Path, label: str) -> None:
    try:
        status = file.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ImageError(f"{label}: cannot be read ({reason})") from error
    if file.is_dir():
        raise ImageError(f"{label}: is a directory, not an image file")
    if not file.is_file():
        raise ImageError(f"{label}: not a regular file")
    if status.st_size == 0:
        raise ImageError(f"{label}: empty file")


def _head(file: Path, label: str) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(HEAD)
    except OSError as error:
        raise ImageError(f"{label}: cannot be read ({error.strerror})") from error


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F" or image.mode.startswith("I"):
        return _eight_bit(image).convert("RGB")
    if image.has_transparency_data:
        opaque = Image.new("RGBA", image.size, "white")
        opaque.alpha_composite(image.convert("RGBA"))
        return opaque.convert("RGB")
    # A copy even of RGB: Image.open's own object is closed with its file.
    return image.convert("RGB") if image.mode != "RGB" else image.copy()


def _eight_bit(image: Image.Image) -> Image.Image:
    """Scale 16-bit integers, or floats in 0..1 or 0..255, to 8 bits; Pillow would clip them."""
    values = np.nan_to_num(np.asarray(image).astype(np.float64))
    if image.mode != "F":
        values = values / 257
    elif values.max(initial=0) <= 1:
        values = values * 255
    return Image.fromarray(np.rint(values).clip(0, 255).astype(np.uint8))


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
        scale=block.number("rescale_factor", 1 / 255) if block.flag("do_rescale", True) else 1.0,
        mean=_channels(block, "image_mean", CLIP_MEAN, 0.0),
        std=_channels(block, "image_std", CLIP_STD, 1.0),
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
    if file.is_file():
        block = Block(read_json(file), file).block("image_processor")
        if block.values:
            return block
    file = directory / "preprocessor_config.json"
    return Block(read_json(file), file) if file.is_file() else None


def _size(block: Block, key: str, default: int, step: str) -> Any:
    """Read a size: the shorter edge (an integer in old files), (height, width), or None."""
    if not block.flag(f"do_{step}", True):
        return None
    if not isinstance(block.get(key, default), dict):
        return block.count(key, default)
    size = block.block(key)
    if "shortest_edge" in size.values:
        return size.count("shortest_edge", default)
    return size.count("height", default), size.count("width", default)


def _channels(
    block: Block, key: str, default: tuple[float, ...], without: float
) -> tuple[float, ...]:
    if not block.flag("do_normalize", True):
        return (without,) * 3
    values = block.get(key, default)
    values = [values] * 3 if isinstance(values, int | float) else values
    if not (
        isinstance(values, list | tuple)
        and len(values) == 3
        and all(isinstance(value, int | float) for value in values)
        and (key == "image_mean" or all(values))
    ):
        raise block.error(key, "three numbers, none of them zero in image_std")
    return tuple(float(value) for value in values)


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
