"""Turns images upright and converts them to RGB: Pillow would clip grey of more than 8 bits."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image
from PIL.TiffImagePlugin import TiffImageFile

BAND = 2**20
"""Pixels that are converted to RGB at a time; a whole copy in between would take more memory."""
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""How to undo EXIF's orientations."""
_CONVERTIBLE = {"La": "LA", "RGBa": "RGBA"}
"""Modes with premultiplied transparency, and the modes that Pillow can convert further."""
_BITS, _PHOTOMETRIC, _WHITE_IS_ZERO = 258, 262, 0
"""TIFF's tags for the bits of a value and for which end is white, and its value for the low end."""


def upright(image: Image.Image) -> Image.Image:
    """The image as its EXIF or XMP says that it is turned; broken tags say nothing."""
    turn = None
    with suppress(Exception):  # damaged tags make Pillow raise anything
        turn = image.getexif().get(ExifTags.Base.Orientation)
    method = _TURNS.get(turn) if isinstance(turn, int) else None
    return image if method is None else image.transpose(method)


def rgb_bands(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """The image in RGB in bands of whole rows, each with the number of its first row."""
    rows = max(1, BAND // max(1, image.width))
    deep = image.mode == "F" or image.mode.startswith("I")
    shallow = _eight_bits(image, rows) if deep else _over_white
    for top, band in _bands(image, rows):
        yield top, shallow(band).convert("RGB")


def _bands(image: Image.Image, rows: int) -> Iterator[tuple[int, Image.Image]]:
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _over_white(image: Image.Image) -> Image.Image:
    image = image.convert(_CONVERTIBLE.get(image.mode, image.mode))
    if not image.has_transparency_data:
        return image
    opaque = Image.new("RGBA", image.size, "white")
    opaque.alpha_composite(image.convert("RGBA"))
    return opaque


def _eight_bits(image: Image.Image, rows: int) -> Callable[[Image.Image], Image.Image]:
    """Function from a part of a deep grey image to its 8 bits."""
    tags = image.tag_v2 if isinstance(image, TiffImageFile) else {}
    is_inverted = tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO
    white = _white(image, tags, rows)

    def eight_bits(part: Image.Image) -> Image.Image:
        levels = np.rint(_values(part) / (white / 255)).clip(0, 255)
        return Image.fromarray((255 - levels if is_inverted else levels).astype(np.uint8))

    return eight_bits


def _white(image: Image.Image, tags: Mapping[int, Any], rows: int) -> float:
    """The value of white that the file or the mode states, else one that the largest fits."""
    if image.mode.startswith("I;16"):
        return float(2 ** tags.get(_BITS, (16,))[0] - 1)
    if image.format == "PPM":  # whose values Pillow scales
        return 65535
    largest = float(max(_values(band).max(initial=0) for _, band in _bands(image, rows)))
    if image.mode == "F" and largest <= 2:
        return 1
    return 255 if largest <= 255 else max(65535, largest)


def _values(image: Image.Image) -> NDArray[np.float64]:
    return np.nan_to_num(np.asarray(image).astype(np.float64))
