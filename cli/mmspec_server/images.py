"""Opens the images of a request, within limits that are checked before they are decoded."""

import base64
import binascii
import os
import re
import stat
import warnings
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Lock
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from PIL import Image

from mmspec.ground.errors import ImageError
from mmspec.ground.latest_values import LatestValues
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
    _decoded: LatestValues[tuple[Picture, int]] = field(
        default_factory=lambda: LatestValues(DECODED_BYTES, lambda kept: kept[1]), init=False
    )
    """Pictures with their sizes, by data: URL or content: a conversation sends them again."""

    def picture(self, url: str, param: str) -> Picture:
        """The picture at `url`; param: the field of the request, named in errors."""
        try:
            source = url if url[:5].lower() == "data:" else self._content(url)
            return self._decoded.get(source, partial(self._opened, source, param))[0]
        except RefusedImage as error:
            raise ApiError(400, f"{param}: {error}", param, "invalid_image") from error
        except ImageError as error:
            raise ApiError(400, str(error), param, "invalid_image") from error

    def _opened(self, source: str | bytes, param: str) -> tuple[Picture, int]:
        content = self._sent(source) if isinstance(source, str) else source
        with self._decoding:  # warnings are silenced for the whole process meanwhile
            self._check_pixels(content)
            picture = decode_picture(content, param)
        return picture, len(source) + 3 * picture.image.width * picture.image.height

    def _content(self, url: str) -> bytes:
        """The content of a file, or at an address."""
        option = ""
        if url.startswith("file:"):
            if self.root:
                return read_file(self.root, url, self.file_bytes)
            option = ", or start it with --media-root DIR"
        elif url.startswith(("http:", "https:")):
            if self.fetcher or self.domains:
                return (self.fetcher or Fetcher(self.domains)).fetch(url, self.file_bytes)
            option = ", or start it with --allow-url DOMAIN"
        raise RefusedImage(f"not read by this server: send its content in base64{option}")

    def _sent(self, url: str) -> bytes:
        """The content of a data: URL."""
        beginning = _DATA_URL.match(url)
        if not beginning:
            raise RefusedImage("a data: URL has a comma before its data: data:image/png;base64,…")
        kind = beginning[1].strip().lower()
        if not kind.startswith("image/") and kind not in _UNTYPED:
            raise RefusedImage(f"a data: URL of {kind!r}: send an image, such as image/png")
        data = url[beginning.end() :].strip()
        content = unquote_to_bytes(data) if "%" in data else data.encode("ascii", "replace")
        if not beginning[2]:
            return content
        content = content.translate(None, b" \t\r\n\f")
        if len(content) * 3 // 4 > self.file_bytes + 2:
            raise RefusedImage(f"it is larger than {self.file_bytes} bytes")
        try:
            return base64.b64decode(content + b"=" * (-len(content) % 4), validate=True)
        except binascii.Error as error:
            reason = "what follows base64, in the data: URL is not base64"
            raise RefusedImage(reason) from error

    def _check_pixels(self, content: bytes) -> None:
        """Refuse by an image's header what would take too much memory to decode."""
        most = f"{self.pixels / MEGA:g} million pixels"
        large = f"it has more than {most}: make it smaller; --max-pixels allows more"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its size, which is checked here
                with Image.open(BytesIO(content), formats=FORMATS) as image:
                    pixels = image.width * image.height
        except Image.DecompressionBombError as error:
            raise RefusedImage(large) from error
        except Exception as error:  # damaged data makes decoders raise anything
            raise RefusedImage(f"it is not an image in {', '.join(FORMATS)}") from error
        if pixels > self.pixels:
            raise RefusedImage(large)


def read_file(root: Path, url: str, limit: int) -> bytes:
    """The file that a `file:` URL names, absolute or relative to `root`.

    Raises RefusedImage unless it is a regular file inside `root`, links resolved, of at most
    `limit` bytes.
    """
    try:
        path = (root / unquote(urlsplit(url).path)).resolve(strict=True)
        if not path.is_relative_to(root.resolve(strict=True)):
            raise RefusedImage("there is no such file in the media root")
        # Without following a link that has come since, nor waiting for a pipe's writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise RefusedImage("it is not a regular file")
            if status.st_size > limit:
                raise RefusedImage(f"it is larger than {limit} bytes")
            return file.read(limit)
    except (OSError, ValueError, RuntimeError) as error:
        # Python 3.11 raises RuntimeError for links in a circle.
        raise RefusedImage("there is no such file in the media root") from error
