"""Opens images and clips that a command names, or that are on standard input or the clipboard."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from PIL import EpsImagePlugin, Image, ImageGrab

from mmspec.ground.errors import UsageError
from mmspec.prompt.any_image import open_visual
from mmspec.prompt.clips import EVENLY, FrameSampling
from mmspec.prompt.file_kinds import VISUAL_SUFFIXES
from mmspec.prompt.images import Picture, decode_picture, picture_from
from mmspec_cli.terminal.attachments import local_path

STANDARD_INPUT = "-"

CLIPBOARD = "clipboard"
"""Name of an image that was copied, not a file."""


def open_images(names: Sequence[str], sampling: FrameSampling) -> list[Picture]:
    """The images and clips called `names`; raises UsageError if two are on standard input."""
    if names.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input holds one image: give - once")
    return [
        _read_standard_input() if name == STANDARD_INPUT else open_visual(name, sampling)
        for name in names
    ]


def _read_standard_input() -> Picture:
    if sys.stdin.isatty():
        raise UsageError("- reads an image from a pipe, such as: pngpaste - | mmspec chat -")
    return decode_picture(sys.stdin.buffer.read(), "standard input")


def type_at_terminal() -> None:
    """Read what a person types after standard input gave an image; raises UsageError without one.

    The terminal becomes standard input of this process.
    """
    try:
        terminal = _open_terminal()
    except OSError as error:
        raise UsageError(
            "standard input held the image, and there is no terminal to type questions at: use "
            "mmspec generate - --prompt TEXT"
        ) from error
    os.dup2(terminal, 0)
    os.close(terminal)
    sys.stdin = open(0, closefd=False, errors="surrogateescape")  # noqa: SIM115 - stays open


def _open_terminal() -> int:
    """Open the terminal, by its own name if it has one: macOS cannot wait for keys at /dev/tty."""
    for descriptor in (1, 2):
        with suppress(OSError):  # no terminal, or one that has no name here, as in containers
            return os.open(os.ttyname(descriptor), os.O_RDWR)
    return os.open(os.ctermid(), os.O_RDWR)


def clipboard_picture(sampling: FrameSampling = EVENLY) -> Picture:
    """The image on the clipboard, or the image or clip whose path was copied, as file or as text.

    Raises UsageError if there is none, or if the clipboard cannot be read.
    """
    EpsImagePlugin.gs_binary = False  # Pillow opens any format, and EPS would start Ghostscript
    try:
        content = ImageGrab.grabclipboard()
        if isinstance(content, Image.Image):
            return picture_from(content, CLIPBOARD)
        file = content[0] if content else _clipboard_text().strip()
    except (OSError, NotImplementedError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(f"/paste found no image ({error}): use /image PATH") from error
    if file.lower().endswith(VISUAL_SUFFIXES) and "\n" not in file:
        return open_visual(Path(local_path(file)), sampling)
    raise UsageError("the clipboard holds no image: copy one, or name a file with /image PATH")


def _clipboard_text() -> str:
    """The text on the clipboard, which Pillow does not read."""
    if sys.platform == "darwin":
        command = ["pbpaste"]
    elif os.environ.get("WAYLAND_DISPLAY"):
        command = ["wl-paste", "--no-newline", "--type", "text/plain"]
    else:
        command = ["xclip", "-selection", "clipboard", "-out"]
    return subprocess.run(command, capture_output=True, check=False).stdout.decode(errors="replace")
