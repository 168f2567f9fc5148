"""Turns images upright and converts them to RGB: Pillow would clip grey of more than 8 bits."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

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
_UNMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}
"""Modes with multiplied transparency, and those that Pillow makes other modes of."""
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
    levels = _grey_levels(image, rows) if deep else None
    for top, band in _bands(image, rows):
        yield top, (levels.eight_bit(band) if levels else _over_white(band)).convert("RGB")


def _bands(image: Image.Image, rows: int) -> Iterator[tuple[int, Image.Image]]:
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _over_white(image: Image.Image) -> Image.Image:
    image = image.convert(_UNMULTIPLIED.get(image.mode, image.mode))
    if not image.has_transparency_data:
        return image
    opaque = Image.new("RGBA", image.size, "white")
    opaque.alpha_composite(image.convert("RGBA"))
    return opaque


@dataclass(frozen=True, slots=True)
class GreyLevels:
    """The value of white; `inverted` if black has that value, and white is 0."""

    white: float
    inverted: bool = False

    def eight_bit(self, image: Image.Image) -> Image.Image:
        """A part of the image in 8 bits."""
        levels = np.rint(_values(image) / (self.white / 255)).clip(0, 255)
        return Image.fromarray((255 - levels if self.inverted else levels).astype(np.uint8))


def _grey_levels(image: Image.Image, rows: int) -> GreyLevels:
    """The levels that the file or the mode states, else those that hold the largest value."""
    tags = image.tag_v2 if isinstance(image, TiffImageFile) else {}
    inverted = tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO
    if image.mode.startswith("I;16"):
        return GreyLevels(2 ** tags.get(_BITS, (16,))[0] - 1, inverted)
    if image.format == "PPM":  # whose values Pillow scales
        return GreyLevels(65535)
    largest = max(_values(band).max(initial=0) for _, band in _bands(image, rows))
    whites = ((1.0, image.mode == "F" and largest <= 2), (255, largest <= 255))
    usual = next((white for white, fits in whites if fits), 65535)
    return GreyLevels(max(usual, largest if largest > 65535 else 0), inverted)


def _values(image: Image.Image) -> NDArray[np.float64]:
    return np.nan_to_num(np.asarray(image).astype(np.float64))
