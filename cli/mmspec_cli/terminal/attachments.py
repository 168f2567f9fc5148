"""Finds the paths of images and clips in the words of a message."""

import difflib
import glob
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from mmspec.ground.errors import ImageError
from mmspec.ground.input_files import expand_home
from mmspec.prompt.any_image import open_visual
from mmspec.prompt.clips import EVENLY, FrameSampling
from mmspec.prompt.file_kinds import VISUAL_SUFFIXES, conversion
from mmspec.prompt.images import Picture
from mmspec.prompt.saved_conversation import FILE_URL
from mmspec_terminal.wording import quantity

AGAIN = "; nothing was sent, and the same again is sent as text"
"""End of a refusal after which the message can be entered again."""

_STARTS = ("/", "~/", "./", "../")
_WEB_SCHEMES = ("http", "https", "ftp")
_OPENING = "([{<`*\"'\u201c\u201e\u00ab"
_CLOSING = ")]}>`*\"'"

_NAME = re.compile(r"\w[\w .()+-]{0,254}")
"""Matches a file name without a slash that a person would type."""

# A word ends at an ordinary space: names of screenshots hold others. As in shells, backslashes and
# quotes protect characters; a quote within a word, as in don't, is a letter.
_OPENS = r"""(?<![^ \t\r\n"'/])"""
_CURLY = rf"{_OPENS}[\u201c\u201e]([^\u201c-\u201e]+)[\u201c\u201d]"  # as text editors write quotes
# A backslash is read in one way alone: else a quote that stays open takes exponential time.
_DOUBLE = r"""((?:[^"\\]|\\["\\$`]|\\(?!["\\$`]))+\\?|\\)"""
_PIECE = re.compile(rf"""{_OPENS}"{_DOUBLE}"|{_OPENS}'([^']+)'|{_CURLY}|\\(.)|([^ \t\r\n])""")
_WORD = re.compile(rf"(?<![^ \t\r\n])(?:{re.sub(r'[(](?![?])', '(?:', _PIECE.pattern)})+")

_PROTECTING = re.compile(rf"[\"'\\\u201c\u201e]|{FILE_URL}")
_SUFFIX = re.compile(rf"(?:{'|'.join(map(re.escape, VISUAL_SUFFIXES))})(?![\w/]|[.-]\w)", re.I)
_BEGINS = re.compile(rf"(?<![^\s,;:{re.escape(_OPENING)}])(?!//)\S")
_LONGEST = 1024
_LABEL = re.compile(r"!?\[[^\]\n]*\]\($")  # of an image or link in Markdown
_PARTS = re.compile(r"[^\s,;]+")
_PLACEHOLDER = "\ufdd0"  # in place of a path: no text has this character


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a message as a path or address, and the punctuation behind it."""

    name: str
    punctuation: str = ""
    is_protected: bool = False
    """True if quotes, backslashes or a file: URL say that its spaces belong to it."""


class Attachments(NamedTuple):
    """A message's words, the images that it names, and remarks on files that stay words."""

    text: str
    pictures: Sequence[Picture] = ()
    remarks: Sequence[str] = ()


def take_images(
    message: str, *, as_text: bool = False, sampling: FrameSampling = EVENLY
) -> Attachments:
    """Split a message into its text and the images and clips whose paths it contains.

    A word with the suffix of one is a path.  Raises ImageError for a path that cannot be opened,
    for the address of an image and for a picture in a format that is not read.  as_text: take
    those as text.
    """
    pictures, remarks = list[Picture](), list[str]()

    def without_path(match: re.Match[str]) -> str:
        if not re.search("[./:]", match[0]):  # as most words of a long text
            return match[0]
        word = _parse_word(match[0])
        try:
            if _is_image(word, as_text=as_text):
                pictures.append(open_visual(Path(word.name), sampling))
                return _PLACEHOLDER + word.punctuation
        except ImageError as error:
            if not as_text:
                raise ImageError(f"{error}{AGAIN}") from error
        remark = _remark(word)
        is_whole = remark or word.is_protected or "://" in word.name or _PARTS.fullmatch(match[0])
        remarks.extend(remark)
        # Else it is split at commas and at spaces of other kinds.
        return match[0] if is_whole else _PARTS.sub(without_path, match[0])

    text = _WORD.sub(without_path, _with_quotes(message))
    return Attachments(_tidy(text) if pictures else message, pictures, remarks)


def unseen_images(prompt: str, images: Iterable[str]) -> list[str]:
    """A remark on the images that a prompt names, there or not, where a command takes none from it.

    images: those that the command is given; the remark leaves their names out.  A word counts
    whole, as `a.png,b.jpg`.
    """
    paths = {name for path in images for name in (path, Path(path).name)}
    words = [match[0] for match in _WORD.finditer(_with_quotes(prompt))]
    names = dict.fromkeys(_parse_word(word).name for word in words if _SUFFIX.search(word))
    unseen = [name for name in names if _has_suffix(name) and name not in paths]
    remark = "the model reads the name alone; name an image before --prompt to show it"
    return [f"{', '.join(unseen)}: {remark}"] if unseen else []


def _has_suffix(name: str) -> bool:
    """True if a name ends as one of an image or a clip."""
    return Path(name).suffix.lower() in VISUAL_SUFFIXES


def _with_quotes(message: str) -> str:
    """The message with quotes around images that exist, also names with spaces or in brackets."""
    pieces, end = [], 0
    for word in _WORD.finditer(message) if _SUFFIX.search(message) else ():
        if _PROTECTING.search(word[0]) and _parse_word(word[0]).is_protected:
            pieces += [_quote_names(message[end : word.start()]), word[0]]
            end = word.end()
    return "".join([*pieces, _quote_names(message[end:])])


def _quote_names(text: str) -> str:
    """The same of a text in which nothing is protected."""
    pieces, place, ends = [], 0, [suffix.end() for suffix in _SUFFIX.finditer(text)]
    for earlier, end in zip([0, 0, *ends], ends, strict=False):  # a name has two suffixes at most
        least = max(place, earlier, end - _LONGEST)
        line_start = max(least, text.rfind("\n", least, end) + 1)
        for start in (begin.start() for begin in _BEGINS.finditer(text, line_start, end)):
            if is_file(text[start:end]):
                head, tail = text[place:start], text[end : end + _LONGEST]
                pieces += [_LABEL.sub("", head).rstrip(_OPENING), f" {_quote(text[start:end])} "]
                place = end + len(tail) - len(tail.lstrip(_CLOSING))
                break
    return "".join([*pieces, text[place:]])


def _quote(name: str) -> str:
    """A name in double quotes, which `typed_path` takes off."""
    return '"' + re.sub(r"""(["\\$`])""", r"\\\1", name) + '"'


def typed_path(argument: str) -> str:
    """The path in an argument, in which quotes or backslashes may protect characters."""

    def unprotect(piece: re.Match[str]) -> str:
        in_double_quotes, *others = piece.groups("")
        return re.sub(r"""\\(["\\$`])""", r"\1", in_double_quotes) or "".join(others)

    return _PIECE.sub(unprotect, argument)


def typed_paths(argument: str) -> list[str]:
    """The paths in an argument, separated by spaces; quotes or backslashes protect spaces."""
    return [typed_path(match[0]) for match in _WORD.finditer(argument)]


def _parse_word(text: str) -> _Word:
    """A word as a path or address; its last characters are punctuation unless a file has them."""
    word = typed_path(text)
    bare = word.rstrip("".join(filter(_closes, word)))
    inner = bare.lstrip(_OPENING)
    name = next(filter(is_file, (word, bare)), inner)
    is_protected = len(word) < len(text) or name.startswith(FILE_URL)
    return _Word(local_path(name), word[word.index(name) + len(name) :], is_protected)


def _closes(letter: str) -> bool:
    """True for punctuation behind a word, such as full stops and closing brackets of any script."""
    return letter in ".,;:!?" + _CLOSING or (
        not letter.isascii() and unicodedata.category(letter) in ("Po", "Pe", "Pf")
    )


def local_path(name: str) -> str:
    """The path in a file: URL, as a file manager writes it; other names as they are."""
    return unquote(_address(name).path) if name.startswith(FILE_URL) else name


def _typed(name: str) -> str:
    """A name as a person would type it, in quotes where it needs them."""
    return name if typed_paths(name) == [name] else _quote(name)


def _is_image(word: _Word, *, as_text: bool) -> bool:
    """True if a word is a path that must be an image's; ImageError if it names another thing.

    as_text: whether it is text then.
    """
    name, explicit = word.name, _is_explicit(word)
    if _address(name).scheme in (*_WEB_SCHEMES, "data"):
        _refuse_address(name)
    elif _has_suffix(name) and _is_path(word):
        if is_file(name, Path.exists):  # what is no regular file is refused when it is opened
            return True
        if as_text:
            return False  # before a search for the nearest name
        if glob.has_magic(name):
            raise ImageError(f"{name}: a question takes no pattern; /image {_typed(name)} does")
        quotes = "" if word.is_protected else "; a name with spaces needs quotes"
        raise ImageError(f"{name}: there is no such file{_nearest(name)}{quotes}")
    elif (advice := conversion(name)) and _is_path(word):
        raise ImageError(f"{name}: {advice}")
    elif explicit and is_file(name):
        return True
    elif explicit and _images_in(name):
        raise ImageError(folder_offer(name))
    return False


def _address(word: str) -> SplitResult:
    """The parts of an address; of any other word, its path is the word."""
    try:
        return urlsplit(word)
    except ValueError:  # brackets, as in http://[the page
        return SplitResult("", "", word, "", "")


def folder_offer(name: str) -> str:
    """The remark on a folder in place of an image."""
    number = len(_images_in(name))
    pattern = _typed(str(Path(glob.escape(name)) / "*"))
    offer = f"/image {pattern} adds them" if number else "name an image"
    return f"{name} is a folder with {quantity(number, 'image')}: {offer}"


def _refuse_address(address: str) -> None:
    suffix = Path(_address(address).path).suffix.lower()
    if address.startswith("data:image/"):
        raise ImageError("data:image/…: images are taken from files; save it and give its path")
    if suffix in VISUAL_SUFFIXES or conversion(f"a{suffix}"):
        raise ImageError(f"{address}: nothing is fetched; save the image and give its path")


def _remark(word: _Word) -> list[str]:
    """The remark on an address, or on a file that is sent as its name."""
    name = word.name
    if _address(name).scheme in _WEB_SCHEMES:
        return [f"{name}: nothing is fetched; the model reads the address alone"]
    if Path(name).suffix and is_file(name):
        return [f"{name}: not an image; the model reads the name alone"]
    if word.is_protected and name.startswith(_STARTS) and not is_file(name, Path.exists):
        return [f"{name}: there is no such file; the model reads the name alone"]
    return []


def _is_path(word: _Word) -> bool:
    """True if a word with the suffix of a picture is its path, not a word of a sentence."""
    is_name = word.is_protected or _NAME.fullmatch(word.name) is not None
    return is_name or is_file(word.name) or _is_explicit(word)


def _is_explicit(word: _Word) -> bool:
    """True if a word can only be a path."""
    is_one = word.is_protected or " " not in word.name
    return "/" in word.name and "://" not in word.name and is_one


def _nearest(name: str) -> str:
    images = {file.stem: file for file in _images_in(".")}
    nearest = difflib.get_close_matches(Path(name).stem, images, n=1)
    return f" (nearest: {images[nearest[0]]})" if nearest else ""


def _images_in(folder: str) -> list[Path]:
    """The images in a folder; none in one that may not be listed, is a file, or is not there."""
    try:
        files = list(Path(folder).expanduser().iterdir())
    except (OSError, RuntimeError, ValueError):
        return []
    return [file for file in files if _has_suffix(file.name)]


def is_file(path: str, is_it: Callable[[Path], bool] = Path.is_file) -> bool:
    """What `is_it` says of a path; False for one that nothing can have or nobody may ask about."""
    try:
        return is_it(expand_home(path))
    except (OSError, ValueError):
        return False


def _tidy(text: str) -> str:
    """The text without the marks of paths, and without the gaps and commas that they leave."""
    first, *between, last = (part.strip(" \t") for part in text.split(_PLACEHOLDER))
    later = [*filter(lambda part: part.strip(",; \t"), between), last]
    parts = (part if part[:1] in ".,;:!?)\n" else f" {part}" for part in later)
    return "".join([first, *parts]).strip().lstrip(",;: ")
