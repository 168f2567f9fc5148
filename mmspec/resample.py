"""A window of a resized image, without the rest of it.

A 10000 by 3 image whose shorter edge becomes 336 is 376 megapixels, of which a crop keeps
336 by 336. Pillow's two passes work on rows and columns independently, so the window can be
computed alone, in the same fixed-point arithmetic, and comes out bit-identical. Columns come
before rows, as in Pillow; from 13 on it may start with the rows where an image gets smaller.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_PRECISION_BITS = 32 - 8 - 2  # Pillow's fixed point: 8 bits of pixel, 2 of headroom


def _triangle(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _cubic(x: float) -> float:
    """Keys' cubic convolution with a = -0.5."""
    x = abs(x)
    if x < 1.0:
        return (1.5 * x - 2.5) * x * x + 1.0
    return ((x - 5.0) * x + 8.0) * x * -0.5 + 2.0 if x < 2.0 else 0.0


KERNELS: dict[Image.Resampling, tuple[Callable[[float], float], float]] = {
    Image.Resampling.BILINEAR: (_triangle, 1.0),
    Image.Resampling.BICUBIC: (_cubic, 2.0),
}
"""The filters known here, each with the half of its width."""


def resized_window(
    image: Image.Image,
    size: tuple[int, int],
    resample: Image.Resampling,
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> NDArray[np.uint8]:
    """Return uint8 [rows, columns, 3] of the RGB `image` resized to `size` (height, width)."""
    first, last = _source_span(image.height, size[0], resample, *rows)
    source = np.asarray(image.crop((0, first, image.width, last)))
    across = _resized_rows(source.transpose(1, 0, 2), image.width, size[1], resample, 0, columns)
    return _resized_rows(across.transpose(1, 0, 2), image.height, size[0], resample, first, rows)


def _resized_rows(
    source: NDArray[np.uint8],
    length: int,
    resized: int,
    resample: Image.Resampling,
    offset: int,
    window: tuple[int, int],
) -> NDArray[np.uint8]:
    """Resize axis 0, of which `source` holds what starts at `offset`, keeping `window`."""
    if length == resized:
        return source[window[0] - offset : window[1] - offset]
    result = np.empty((window[1] - window[0], *source.shape[1:]), dtype=np.uint8)
    for row in range(*window):
        first, weights = _weights(length, resized, resample, row)
        taps = source[first - offset : first - offset + len(weights)].astype(np.int64)
        total = np.tensordot(weights, taps, axes=1) + (1 << (_PRECISION_BITS - 1))
        result[row - window[0]] = np.clip(total >> _PRECISION_BITS, 0, 255)
    return result


def _weights(
    length: int, resized: int, resample: Image.Resampling, position: int
) -> tuple[int, NDArray[np.int64]]:
    """Return the first source position and the fixed-point weights of one output position."""
    kernel, support = KERNELS[resample]
    scale = length / resized
    widening = max(scale, 1.0)
    center = (position + 0.5) * scale
    first = max(int(center - support * widening + 0.5), 0)
    last = min(int(center + support * widening + 0.5), length)
    inverse = 1.0 / widening
    values = [kernel((place - center + 0.5) * inverse) for place in range(first, last)]
    total = sum(values)
    fixed = [value / total * (1 << _PRECISION_BITS) for value in values]
    return first, np.array([int(x + 0.5) if x >= 0 else int(x - 0.5) for x in fixed])


def _source_span(
    length: int, resized: int, resample: Image.Resampling, start: int, stop: int
) -> tuple[int, int]:
    if length == resized:
        return start, stop
    first, _ = _weights(length, resized, resample, start)
    final, weights = _weights(length, resized, resample, stop - 1)
    return first, final + len(weights)
