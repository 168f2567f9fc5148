"""Estimates the memory that opening an image takes; lets large ones be decoded at a smaller scale.

tests/core/test_image_memory.py compares the estimates with the peaks of processes, with Pillow 13.
"""

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

MAX_MEMORY = 1_000_000_000
"""Bytes that opening one image may take."""

MAX_FILE = MAX_MEMORY // 2
"""Bytes of an image's file at most: some decoders hold it twice before they name its size."""

KEPT = 4
"""Bytes of a picture's pixel: Pillow keeps RGB in four."""

SCALES = (1, 2, 4, 8)
"""Divisors of an image's size that JPEG decoders offer."""

# Bytes of a decoded pixel, by mode; four in any other.
_DECODED = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2}
# Bytes a pixel of decoders that hold the image several times over.
_DECODER = {"WEBP": 9, "AVIF": 6, "HEIF": 4, "TIFF": 2}
_WHOLE = ("WEBP", "AVIF", "HEIF")
"""Formats whose decoders hold the whole file."""
_COEFFICIENTS = 6
"""Bytes a pixel that decoding a progressive JPEG takes at any scale."""


def set_smaller_scale(image: Image.Image, file_bytes: int) -> bool:
    """Let `image`, not yet loaded, be decoded at the first scale that fits into MAX_MEMORY.

    Only JPEG offers smaller ones. Returns False if none fits.
    """
    for scale in SCALES if isinstance(image, JpegImageFile) else SCALES[:1]:
        if needed_memory(image, file_bytes, scale) <= MAX_MEMORY:
            image.draft(None, (image.width // scale, image.height // scale))
            return True
    return False


def needed_memory(image: Image.Image, file_bytes: int, scale: int = 1) -> int:
    """Bytes that opening `image` takes at 1/scale of its size, about."""
    pixels = image.width * image.height
    each = _DECODED.get(image.mode, 4) + _DECODER.get(image.format or "", 0) + KEPT
    whole = _COEFFICIENTS if "progressive" in image.info else 0
    held = file_bytes if image.format in _WHOLE else 0
    return pixels * each // scale**2 + pixels * whole + held
