"""Files of one kind that are damaged, and what tests of all kinds use."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from mmspec.chat.options import Options

TEXT = "what is in <image> </s> picture? über\n"
OPTIONS = Options(max_new_tokens=3, exact="off", gamma=2)


@dataclass(frozen=True)
class Subject:
    """Files of one kind: written by `make`, read by `use`, which is told the damaged file."""

    use: Callable[[Path, str], object]
    """Uses the folder of a file on a backend."""
    files: tuple[str, ...]
    """Names of those that are damaged."""
    make: Callable[[Path], object] | None = None
    """None for files that need a fixture."""
    words: tuple[str, ...] = ()
    """Words that name the file as well as its name does."""


def picture() -> Image.Image:
    """A small picture with some detail."""
    pixels = np.random.default_rng(0).integers(0, 255, (6, 9, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((36, 24))
