"""Image paths typed among the words of a message."""

import difflib
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mmspec.errors import ImageError
from mmspec.images import Picture, open_picture

SUFFIXES = (
    *(".avif", ".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".mpo", ".pbm", ".pgm", ".png", ".ppm"),
    *(".tga", ".tif", ".tiff", ".webp"),
)
_CLOSING = ".,;:!?)"

_NAME = re.compile(r"\w[\w .()+-]{0,254}")
"""What people call files."""

# A quoted run, or a run without spaces in which a backslash protects the next character.
_WORD = re.compile(r"""(?<!\S)(?:"([^"]+)"|'([^']+)'|((?:\\.|[^\s\\])+))""")


def take_images(message: str, *, words: bool = False) -> tuple[str, list[Picture]]:
    """Split a message into its text and the images whose paths stand in it.

    A word with an image's suffix is taken for a path.  words: one without a slash that names no
    file is only a word.  Raises ImageError for a path that cannot be opened.
    """
    pictures: list[Picture] = []

    def taken(match: re.Match[str]) -> str:
        found = _path(match)
        if found is None:
            return match[0]
        path, rest = found
        if not _is_file(path) and not _is_explicit(path):
            if words:
                return match[0]
            raise _unknown(path)
        pictures.append(open_picture(Path(path)))
        return rest

    text = _WORD.sub(taken, message)
    return (_tidied(text) if pictures else message), pictures


def _path(match: re.Match[str]) -> tuple[str, str] | None:
    """The path that a word names and what follows it, or None if it names none."""
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
    """Whether it can hardly be anything but a path."""
    return "/" in word and " " not in word and "://" not in word


def _unknown(name: str) -> ImageError:
    here = {each.stem: each for each in _images_here()}
    nearest = difflib.get_close_matches(Path(name).stem, here, n=1)
    hint = f" (nearest: {here[nearest[0]]})" if nearest else ""
    return ImageError(
        f"{name}: there is no such file{hint}; nothing was sent, and the same again is sent as text"
    )


def _images_here() -> list[Path]:
    try:
        return [each for each in Path().iterdir() if each.suffix.lower() in SUFFIXES]
    except OSError:  # a folder that may be entered and not listed, or is gone
        return []


def _is_file(path: str) -> bool:
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):
        return False


def _tidied(text: str) -> str:
    """Close the gaps that taken paths left."""
    return re.sub(r" +([.,;:!?)]|$)", r"\1", re.sub(r"[ \t]{2,}", " ", text), flags=re.M).strip()
