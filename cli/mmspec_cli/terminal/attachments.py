"""Finds the paths of images and clips in the words of a message."""

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mmspec.ground.errors import ImageError
from mmspec.prompt.any_image import open_visual
from mmspec.prompt.clips import EVENLY, FrameSampling
from mmspec.prompt.file_kinds import VISUAL_SUFFIXES, conversion
from mmspec.prompt.images import Picture, open_picture

AGAIN = "; nothing was sent, and the same again is sent as text"
"""End of a refusal after which the message can be entered again."""

_CLOSING = ".,;:!?)"
_FETCHED = ("http", "https", "ftp")

_NAME = re.compile(r"\w[\w .()+-]{0,254}")
"""Matches a file name without a slash that a person would type."""

# A quoted run, or a run without spaces in which a backslash protects the next character.
_WORD = re.compile(r"""(?<!\S)(?:"([^"]+)"|'([^']+)'|((?:\\.|[^\s\\])+))""")


@dataclass(slots=True)
class Attachments:
    """The images that a message names, its other words, and remarks on files that stay words."""

    text: str = ""
    pictures: list[Picture] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def take_images(
    message: str, *, words: bool = False, sampling: FrameSampling = EVENLY
) -> Attachments:
    """Split a message into its text and the images and clips whose paths it contains.

    A word with the suffix of one is a path.  Raises ImageError for a path that cannot be opened,
    for the address of an image and for a picture in a format that is not read.  words: treat
    those as text, except for a path with a slash to a missing file, and images that are damaged.
    """
    taken = Attachments()

    def without_path(match: re.Match[str]) -> str:
        path, rest = _split(match)
        if not _is_image(path, words):
            taken.remarks += _remark(path)
            return match[0]
        taken.pictures.append(open_visual(Path(path), sampling))
        return rest

    text = _WORD.sub(without_path, message)
    taken.text = _tidied(text) if taken.pictures else message
    return taken


def unseen_images(prompt: str) -> list[str]:
    """Remarks on images that a prompt names, where a command takes none from it."""
    names = [_split(match)[0] for match in _WORD.finditer(prompt)]
    return [
        f"{name}: the model reads the name alone; name an image before --prompt to show it"
        for name in names
        if Path(name).suffix.lower() in VISUAL_SUFFIXES
        and (_scheme(name) in _FETCHED or _is_file(name))
    ]


def typed_path(typed: str) -> str:
    """The path in an argument, in which quotes or backslashes may protect spaces."""
    if len(typed) > 1 and typed[0] == typed[-1] and typed[0] in "'\"":
        return typed[1:-1]
    return re.sub(r"\\(.)", r"\1", typed)


def typed_paths(typed: str) -> list[str]:
    """The paths in an argument, separated by spaces; quotes or backslashes protect spaces."""
    return [typed_path(match[0]) for match in _WORD.finditer(typed)]


def _split(match: re.Match[str]) -> tuple[str, str]:
    """The path or address that a word may be, and the punctuation that follows it."""
    quoted = match[1] or match[2]
    word = typed_path(match[0])
    bare = word.rstrip(_CLOSING)
    name = word if quoted or (bare != word and _is_file(word)) else bare
    return local_path(name), word[len(name) :]


def local_path(name: str) -> str:
    """The path in a file: URL, as a file manager writes it; other names as they are."""
    return unquote(urlsplit(name).path) if name.startswith("file://") else name


def _is_image(word: str, repeated: bool) -> bool:
    """True if a word is the path of an image; raises ImageError if it is the name of another.

    repeated: the message was refused before, so that such a name is text.
    """
    refused = None
    if _scheme(word) in (*_FETCHED, "data"):
        refused = _refused_address(word)
    elif _is_path(word, VISUAL_SUFFIXES):
        if _is_file(word) or _is_explicit(word):
            return True
        refused = f"{word}: there is no such file{_nearest(word)}"
    elif (advice := conversion(word)) and _is_path(word, (Path(word).suffix.lower(),)):
        refused = f"{word}: {advice}"
    elif _is_explicit(word) and _is_file(word):
        if _opens(word):
            return True
        refused = f"{word}: not an image that can be read"
    if refused and not repeated:
        raise ImageError(refused + AGAIN)
    return False


def _scheme(word: str) -> str:
    try:
        return urlsplit(word).scheme
    except ValueError:  # an address that ends within brackets
        return ""


def _opens(path: str) -> bool:
    try:
        open_picture(path)
    except ImageError:
        return False
    return True


def _refused_address(address: str) -> str | None:
    suffix = Path(urlsplit(address).path).suffix.lower()
    if address.startswith("data:image/"):
        return "data:image/…: images are taken from files; save it and give its path"
    if suffix in VISUAL_SUFFIXES or conversion(f"a{suffix}"):
        return f"{address}: nothing is fetched; save the image and give its path"
    return None


def _remark(word: str) -> list[str]:
    """What is said of an address, or of a file that is sent as its name."""
    if _scheme(word) in _FETCHED:
        return [f"{word}: nothing is fetched; the model reads the address alone"]
    if Path(word).suffix and _is_file(word):
        return [f"{word}: not an image; the model reads the name alone"]
    return []


def _is_path(word: str, suffixes: tuple[str, ...]) -> bool:
    if Path(word).suffix.lower() not in suffixes:
        return False
    return _is_file(word) or _is_explicit(word) or _NAME.fullmatch(word) is not None


def _is_explicit(word: str) -> bool:
    """True if a word can only be a path."""
    return "/" in word and " " not in word and "://" not in word


def _nearest(name: str) -> str:
    images = {file.stem: file for file in _images_here()}
    nearest = difflib.get_close_matches(Path(name).stem, images, n=1)
    return f" (nearest: {images[nearest[0]]})" if nearest else ""


def _images_here() -> list[Path]:
    try:
        return [file for file in Path().iterdir() if file.suffix.lower() in VISUAL_SUFFIXES]
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
