"""Image paths typed among the words of a message."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mmspec.images import Picture, open_picture

SUFFIXES = (
    *(".avif", ".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".mpo", ".pbm", ".pgm", ".png", ".ppm"),
    *(".tga", ".tif", ".tiff", ".webp"),
)
_CLOSING = ".,;:!?)"

# A quoted run, or a run without spaces in which a backslash protects the next character.
_WORD = re.compile(r"""(?<!\S)(?:"([^"]+)"|'([^']+)'|((?:\\.|[^\s\\])+))""")


def take_images(message: str) -> tuple[str, list[Picture]]:
    """Split a message into its text and the images whose paths stand in it.

    A word is taken for a path if it names an existing file with an image's suffix, or looks like
    nothing but such a path (`file://`, `~` or a slash).  Raises ImageError for one that cannot
    be opened.
    """
    pictures: list[Picture] = []

    def taken(match: re.Match[str]) -> str:
        found = _path(match)
        if found is None:
            return match[0]
        path, rest = found
        pictures.append(open_picture(path))
        return rest

    text = _WORD.sub(taken, message)
    return (_tidied(text) if pictures else message), pictures


def _path(match: re.Match[str]) -> tuple[Path, str] | None:
    """The path that a word names and what follows it, or None if it names none."""
    if match[3] is None:
        return _named(match[1] or match[2], "")
    word = re.sub(r"\\(.)", r"\1", match[3])
    bare = word.rstrip(_CLOSING)
    return _named(word, "") or _named(bare, word[len(bare) :])


def _named(word: str, rest: str) -> tuple[Path, str] | None:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    path = Path(word)
    if path.suffix.lower() not in SUFFIXES:
        return None
    explicit = "/" in word and " " not in word and "://" not in word
    return (path, rest) if explicit or _is_file(path) else None


def _is_file(path: Path) -> bool:
    try:
        return path.expanduser().is_file()
    except (OSError, RuntimeError, ValueError):
        return False


def _tidied(text: str) -> str:
    """Close the gaps that taken paths left."""
    return re.sub(r" +([.,;:!?)]|$)", r"\1", re.sub(r"[ \t]{2,}", " ", text), flags=re.M).strip()
