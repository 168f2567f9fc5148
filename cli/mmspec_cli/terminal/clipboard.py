"""Reads an image from the clipboard, by the programs that each system has for it."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from mmspec.ground.errors import UsageError
from mmspec.prompt.any_image import open_visual
from mmspec.prompt.clips import EVENLY, FrameSampling
from mmspec.prompt.file_kinds import VISUAL_SUFFIXES
from mmspec.prompt.images import Picture, decode_picture
from mmspec_cli.terminal.attachments import local_path

SECONDS = 10
"""The longest that a program may take to hand over the clipboard."""

NAME = "clipboard"
"""Name of an image that was copied, not a file."""


def clipboard_picture(sampling: FrameSampling = EVENLY) -> Picture:
    """The image on the clipboard, or the image or clip whose path is there as text.

    Raises UsageError if there is none, or if the program that reads the clipboard is missing.
    """
    content = _image()
    if content:
        return decode_picture(content, NAME)
    file = _text().strip()
    if file.lower().endswith(VISUAL_SUFFIXES) and "\n" not in file:
        return open_visual(Path(local_path(file)), sampling)
    raise UsageError("the clipboard holds no image: copy one, or name a file with /image PATH")


def _image() -> bytes:
    if sys.platform == "darwin":
        return _apple_image()
    if os.environ.get("WAYLAND_DISPLAY"):
        return _run(["wl-paste", "--type", "image/png"], "wl-clipboard")
    _require_display()
    return _run(["xclip", "-selection", "clipboard", "-target", "image/png", "-out"], "xclip")


def _text() -> str:
    if sys.platform == "darwin":
        content = _run(["pbpaste"], "macOS")
    elif os.environ.get("WAYLAND_DISPLAY"):
        content = _run(["wl-paste", "--no-newline", "--type", "text/plain"], "wl-clipboard")
    else:
        content = _run(["xclip", "-selection", "clipboard", "-out"], "xclip")
    return content.decode(errors="replace")


def _apple_image() -> bytes:
    """The clipboard as PNG; AppleScript writes it as «data PNGf» with hexadecimal digits."""
    shown = _run(["osascript", "-e", "the clipboard as «class PNGf»"], "macOS")
    digits = re.search(rb"PNGf([0-9A-Fa-f]+)", shown)
    return bytes.fromhex(digits[1].decode()) if digits else b""


def _require_display() -> None:
    if not os.environ.get("DISPLAY"):
        raise UsageError("there is no clipboard without a desktop: name a file with /image PATH")


def _run(command: Sequence[str], package: str) -> bytes:
    """What a program prints; nothing if it fails, as it does where the clipboard has no image."""
    if which(command[0]) is None:
        raise UsageError(f"/paste needs {command[0]}: install {package}, or use /image PATH")
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{command[0]} gave no clipboard in {SECONDS} seconds") from error
    return done.stdout if done.returncode == 0 else b""
