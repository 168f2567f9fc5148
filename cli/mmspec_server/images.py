"""Opens the images of a request, within limits that are checked before they are decoded."""

import base64
import binascii
import os
import re
import stat
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Lock
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from PIL import Image

from mmspec.ground.errors import ImageError
from mmspec.prompt.images import Picture, decode_picture
from mmspec_server.endpoint import ApiError
from mmspec_server.fetching import Fetcher, RefusedImage

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MEGA = 10**6
DECODED_BYTES = 2**28
"""Bytes of the pictures that are kept, as sent and as pixels."""

_DATA_URL = re.compile(r"data:([^,;]{0,80})(?:;[^,;]{1,200}){0,9}?(;base64)?,", re.IGNORECASE)
_UNTYPED = ("", "application/octet-stream")
"""Types of data: URLs whose writer did not know that of the image."""
_SPACES = bytes.maketrans(b"", b""), b" \t\r\n\f"


class PictureCache:
    """Decoded pictures by their content, as a conversation sends them again; the oldest leave."""

    def __init__(self, size: int) -> None:
        """size: the most bytes of all contents and pixels."""
        self._size = size
        self._pairs: list[tuple[bytes, Picture]] = []

    def get(self, content: bytes, decode: Callable[[bytes], Picture]) -> Picture:
        """The picture of a file's content, in any encoding, decoded if it is not here."""
        # A few comparisons cost less than one digest of megabytes.
        places = (place for place, pair in enumerate(self._pairs) if pair[0] == content)
        place = next(places, None)
        pair = (content, decode(content)) if place is None else self._pairs.pop(place)
        self._pairs.append(pair)
        while sum(map(_bytes, self._pairs)) > self._size:
            del self._pairs[0]
        return pair[1]


def _bytes(pair: tuple[bytes, Picture]) -> int:
    content, picture = pair
    return len(content) + 3 * picture.image.width * picture.image.height


@dataclass(frozen=True, slots=True)
class ImageReader:
    """Opens the pictures that requests name; raises ApiError for those that are refused."""

    file_bytes: int = 20 * 2**20
    pixels: int = 50 * MEGA
    domains: tuple[str, ...] = ()
    """Domains from which images are fetched; none by default."""
    root: Path | None = None
    """The directory whose files `file:` URLs may name; none by default."""
    fetcher: Fetcher | None = None
    """Used in place of one for `domains`."""
    _decoding: Lock = field(default_factory=Lock, init=False, repr=False)
    _decoded: PictureCache = field(
        default_factory=lambda: PictureCache(DECODED_BYTES), init=False, repr=False
    )

    def picture(self, url: str, param: str) -> Picture:
        """The picture at `url`; param: the field of the request, named in errors."""
        if url[:5].lower() == "data:":
            content, decode = self._sent(url, param)
        else:
            content, decode = self._content(url, param), partial(self._decode, param)
        with self._decoding:  # warnings are silenced for the whole process meanwhile
            return self._decoded.get(content, decode)

    def _sent(self, url: str, param: str) -> tuple[bytes, Callable[[bytes], Picture]]:
        """The content of a data: URL as it was sent, and how it is decoded."""
        beginning = _DATA_URL.match(url)
        if not beginning:
            raise refusal(param, "a data: URL has a comma before its data: data:image/png;base64,…")
        kind = beginning[1].strip().lower()
        if not kind.startswith("image/") and kind not in _UNTYPED:
            raise refusal(param, f"a data: URL of {kind!r}: send an image, such as image/png")
        data = url[beginning.end() :].strip()
        content = unquote_to_bytes(data) if "%" in data else data.encode("ascii", "replace")
        if not beginning[2]:
            return content, partial(self._decode, param)
        return content.translate(*_SPACES), partial(self._from_base64, param)

    def _decode(self, param: str, content: bytes) -> Picture:
        self._check_pixels(content, param)
        try:
            return decode_picture(content, param)
        except ImageError as error:
            raise ApiError(400, str(error), param, "invalid_image") from error

    def _content(self, url: str, param: str) -> bytes:
        try:
            if url.startswith("file:") and self.root:
                return read_file(self.root, url, self.file_bytes)
            if url.startswith(("http:", "https:")) and (self.fetcher or self.domains):
                fetcher = self.fetcher or Fetcher(self.domains)
                return fetcher.fetch(url, self.file_bytes)
        except RefusedImage as error:
            raise refusal(param, str(error)) from error
        raise refusal(param, f"not read by this server: send its content in base64{_opening(url)}")

    def _from_base64(self, param: str, text: bytes) -> Picture:
        if len(text) * 3 // 4 > self.file_bytes + 2:
            raise refusal(param, f"it is larger than {self.file_bytes} bytes")
        try:
            content = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
        except binascii.Error as error:
            raise refusal(param, "what follows base64, in the data: URL is not base64") from error
        return self._decode(param, content)

    def _check_pixels(self, content: bytes, param: str) -> None:
        """Refuse by an image's header what would take too much memory to decode."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its size, which is checked here
                with Image.open(BytesIO(content), formats=FORMATS) as image:
                    pixels = image.width * image.height
        except Image.DecompressionBombError as error:
            raise self._too_many_pixels(param) from error
        except Exception as error:  # damaged data makes decoders raise anything
            raise refusal(param, f"it is not an image in {', '.join(FORMATS)}") from error
        if pixels > self.pixels:
            raise self._too_many_pixels(param)

    def _too_many_pixels(self, param: str) -> ApiError:
        most = f"{self.pixels / MEGA:g} million pixels"
        return refusal(param, f"it has more than {most}: make it smaller; --max-pixels allows more")


def _opening(url: str) -> str:
    """The option of the server that would let it read an address."""
    if url.startswith(("http:", "https:")):
        return ", or start it with --allow-url DOMAIN"
    return ", or start it with --media-root DIR" if url.startswith("file:") else ""


def refusal(param: str, reason: str) -> ApiError:
    """The error for an image that is not used."""
    return ApiError(400, f"{param}: {reason}", param, "invalid_image")


def read_file(root: Path, url: str, limit: int) -> bytes:
    """The file that a `file:` URL names, absolute or relative to `root`.

    Raises RefusedImage unless it is a regular file inside `root`, links resolved, of at most
    `limit` bytes.
    """
    try:
        path = (root / unquote(urlsplit(url).path)).resolve(strict=True)
        if not path.is_relative_to(root.resolve(strict=True)):
            raise RefusedImage("there is no such file in the media root")
        return _content(path, limit)
    except (OSError, ValueError, RuntimeError) as error:
        # Python 3.11 raises RuntimeError for links in a circle.
        raise RefusedImage("there is no such file in the media root") from error


def _content(path: Path, limit: int) -> bytes:
    # Without following a link that has come since, nor waiting for a pipe's writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise RefusedImage("it is not a regular file")
        if status.st_size > limit:
            raise RefusedImage(f"it is larger than {limit} bytes")
        return file.read(limit)
