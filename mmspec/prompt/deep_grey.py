"""Grey images of more than 8 bits, scaled to 8: Pillow would clip them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

_BITS, _PHOTOMETRIC, _WHITE_IS_ZERO = 258, 262, 0
"""TIFF's tags for the bits of a value and for which end is white, and its value for the low end."""
_ROWS = 256
"""Rows that are searched at a time, for memory."""


@dataclass(frozen=True, slots=True)
class GreyLevels:
    """The value of white; `inverted` if black has that value, and white is 0."""

    white: float
    inverted: bool = False

    def eight_bit(self, image: Image.Image) -> Image.Image:
        """A part of the image in 8 bits."""
        levels = np.rint(_values(image) / (self.white / 255)).clip(0, 255)
        return Image.fromarray((255 - levels if self.inverted else levels).astype(np.uint8))


def is_deep_grey(image: Image.Image) -> bool:
    """True for integers of 16 or 32 bits, and for floats."""
    return image.mode == "F" or image.mode.startswith("I")


def grey_levels(image: Image.Image) -> GreyLevels:
    """The levels that the file or the mode states, else those that hold the largest value."""
    tags = image.tag_v2 if isinstance(image, TiffImageFile) else {}
    inverted = tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO
    if image.mode.startswith("I;16"):
        return GreyLevels(2 ** tags.get(_BITS, (16,))[0] - 1, inverted)
    if image.format == "PPM":  # whose values Pillow scales
        return GreyLevels(65535)
    largest = max(
        _values(image.crop((0, top, image.width, min(top + _ROWS, image.height)))).max(initial=0)
        for top in range(0, image.height, _ROWS)
    )
    whites = ((1.0, image.mode == "F" and largest <= 2), (255, largest <= 255))
    usual = next((white for white, fits in whites if fits), 65535)
    return GreyLevels(max(usual, largest if largest > 65535 else 0), inverted)


def _values(image: Image.Image) -> NDArray[np.float64]:
    return np.nan_to_num(np.asarray(image).astype(np.float64))
