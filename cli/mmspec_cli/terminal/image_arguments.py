"""Opens the images and clips that a command names; - is the one on standard input."""

import os
import sys
from collections.abc import Sequence

from mmspec.ground.errors import UsageError
from mmspec.prompt.any_image import open_visual
from mmspec.prompt.clips import FrameSampling
from mmspec.prompt.images import Picture, decode_picture

STANDARD_INPUT = "-"


def open_images(names: Sequence[str], sampling: FrameSampling) -> list[Picture]:
    """The images and clips called `names`; raises UsageError if two are on standard input."""
    if names.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input holds one image: give - once")
    return [_read() if name == STANDARD_INPUT else open_visual(name, sampling) for name in names]


def _read() -> Picture:
    if sys.stdin.isatty():
        raise UsageError("- reads an image from a pipe, such as: pngpaste - | mmspec chat -")
    return decode_picture(sys.stdin.buffer.read(), "standard input")


def type_at_terminal() -> None:
    """Read what a person types after standard input gave an image; raises UsageError without one.

    The terminal becomes standard input of this process.
    """
    try:
        terminal = os.open(os.ctermid(), os.O_RDWR)
    except OSError as error:
        raise UsageError(
            "standard input held the image, and there is no terminal to type questions at: use "
            "mmspec generate - --prompt TEXT"
        ) from error
    os.dup2(terminal, 0)
    os.close(terminal)
    sys.stdin = open(0, closefd=False, errors="replace")  # noqa: SIM115 - for the whole command
