"""Small previews of images on a terminal: pixels where it has graphics, half blocks elsewhere."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import cast

from PIL import Image
from rich.console import RenderableType
from rich.text import Text

COLUMNS, ROWS = 24, 10
"""The most columns and rows that a preview takes."""

SIXEL_PROGRAMS = ("iTerm.app", "WezTerm", "mintty", "contour")
SIXEL_TERMINALS = ("foot", "mlterm", "contour", "yaft")
"""Terminals that draw sixels, by TERM_PROGRAM, and by the beginning of TERM."""


def preview(image: Image.Image, width: int) -> RenderableType:
    """A preview of at most COLUMNS by ROWS, on a terminal of `width` columns.

    Graphics are for terminals that name themselves in the environment, and say how many pixels they
    have: to ask them would take keys that were typed meanwhile.
    """
    scale = min(min(COLUMNS, width) / image.width, 2 * ROWS / image.height)
    columns = max(round(image.width * scale), 1)
    rows = max(round(image.height * scale / 2), 1)  # a row is as high as two columns are wide
    program, term = os.environ.get("TERM_PROGRAM"), os.environ.get("TERM", "")
    is_kitty = term in ("xterm-kitty", "xterm-ghostty")
    is_sixel = program in SIXEL_PROGRAMS or term.startswith(SIXEL_TERMINALS)
    # tmux passes no graphics on.
    if "TMUX" not in os.environ and (is_kitty or is_sixel) and _says_its_pixels():
        return _pixels("tgp" if is_kitty else "sixel")(image, columns, rows)
    return half_blocks(image, columns, rows)


def _says_its_pixels() -> bool:
    """True if the terminal's size is also known in pixels."""
    try:
        import fcntl
        import termios

        size = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
    except (ImportError, OSError):
        return False
    return all(memoryview(size).cast("H"))


def _pixels(protocol: str) -> Callable[[Image.Image, int, int], RenderableType]:
    """What draws by a protocol: imported as if there were no terminal, which it would ask."""
    terminal, sys.__stdout__ = sys.__stdout__, None  # type: ignore[misc]
    try:
        renderer = import_module(f"textual_image.renderable.{protocol}").Image
    finally:
        sys.__stdout__ = terminal  # type: ignore[misc]
    return cast(Callable[[Image.Image, int, int], RenderableType], renderer)


def half_blocks(image: Image.Image, columns: int, rows: int) -> Text:
    """The image as upper half blocks, two pixels in each."""
    pixels = image.resize((columns, 2 * rows)).tobytes()
    text = Text(no_wrap=True)
    for row in range(rows):
        for column in range(columns):
            upper = 3 * (2 * row * columns + column)
            starts = upper, upper + 3 * columns
            colours = (f"#{pixels[start : start + 3].hex()}" for start in starts)
            text.append("▀", " on ".join(colours))
        text.append("\n" if row < rows - 1 else "")
    return text
