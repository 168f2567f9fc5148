"""Finds image paths in the words of a message."""

import difflib
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mmspec.errors import ImageError
from mmspec.prompt.images import Picture, open_picture

SUFFIXES = (
    *(".avif", ".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".mpo", ".pbm", ".pgm", ".png", ".ppm"),
    *(".tga", ".tif", ".tiff", ".webp"),
)
_CLOSING = ".,;:!?)"

_NAME = re.compile(r"\w[\w .()+-]{0,254}")
"""Matches a file name without a slash that a person would type."""

# A quoted run, or a run without spaces in which a backslash protects the next character.
_WORD = re.compile(r"""(?<!\S)(?:"([^"]+)"|'([^']+)'|((?:\\.|[^\s\\])+))""")


def take_images(message: str, *, words: bool = False) -> tuple[str, list[Picture]]:
    """Split a message into its text and the images whose paths it contains.

    A word with an image's suffix is a path.  words: treat a word without a slash that names no file
    as text.  Raises ImageError for a path that cannot be opened.
    """
    pictures: list[Picture] = []

    def without_path(match: re.Match[str]) -> str:
        named = _path(match)
        if named is None:
            return match[0]
        path, rest = named
        if not _is_file(path) and not _is_explicit(path):
            if words:
                return match[0]
            raise _unknown(path)
        pictures.append(open_picture(Path(path)))
        return rest

    text = _WORD.sub(without_path, message)
    return (_tidied(text) if pictures else message), pictures


def _path(match: re.Match[str]) -> tuple[str, str] | None:
    """The path that a word names and the rest of the word; None if it names none."""
    quoted = match[1] or match[2]
    word = quoted or re.sub(r"\\(.)", r"\1", match[3])
    for name in (word, "" if quoted else word.rstrip(_CLOSING)):
        if path := _named(name):
            return path, word[len(name) :]
    return None


def _named(word: str) -> str | None:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    if Path(word).suffix.lower() not in SUFFIXES:
        return None
    return word if _is_file(word) or _is_explicit(word) or _NAME.fullmatch(word) else None


def _is_explicit(word: str) -> bool:
    """True if a word can only be a path."""
    return "/" in word and " " not in word and "://" not in word


def _unknown(name: str) -> ImageError:
    images = {file.stem: file for file in _images_here()}
    nearest = difflib.get_close_matches(Path(name).stem, images, n=1)
    hint = f" (nearest: {images[nearest[0]]})" if nearest else ""
    return ImageError(
        f"{name}: there is no such file{hint}; nothing was sent, and the same again is sent as text"
    )


def _images_here() -> list[Path]:
    try:
        return [file for file in Path().iterdir() if file.suffix.lower() in SUFFIXES]
    except OSError:  # a folder that may not be listed, or is gone
        return []


def _is_file(path: str) -> bool:
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):
        return False


def _tidied(text: str) -> str:
    """The text without the gaps that removed paths leave."""
    return re.sub(r" +([.,;:!?)]|$)", r"\1", re.sub(r"[ \t]{2,}", " ", text), flags=re.M).strip()
