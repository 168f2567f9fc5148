"""Opens the images of a request, within limits that are checked before they are decoded.

Images are fetched from allowed domains alone, at addresses that were checked to be public.
"""

import base64
import binascii
import os
import socket
import ssl
import stat
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from io import BytesIO
from ipaddress import IPv6Network, ip_address
from math import inf, prod
from pathlib import Path
from threading import Lock, Timer
from time import monotonic
from urllib.parse import unquote, unquote_to_bytes, urljoin, urlsplit

from PIL import Image

from mmspec.ground.errors import ImageError
from mmspec.ground.latest_values import LatestValues
from mmspec.prompt.images import Picture, decode_picture
from mmspec_server.endpoint import ApiError
from mmspec_server.settings import ServerSettings

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
FILE_BYTES = 20 * 2**20
PORTS = {"http": 80, "https": 443}
REDIRECTS = 3

TRANSLATED = IPv6Network("64:ff9b::/96"), IPv6Network("2002::/16")
"""IPv6 addresses that gateways translate to IPv4 ones (RFC 6052, RFC 3056)."""


def fetch(url: str, domains: Sequence[str], limit: int, seconds: float = 10.0) -> bytes:
    """The content at `url`, at most `limit` bytes; raises ImageError.

    domains: exact host names, without their subdomains; every redirect is checked like the first
    address.  seconds: for all of it, redirects included.
    """
    deadline = monotonic() + seconds
    try:
        for _ in range(REDIRECTS + 1):
            content = _get(url, domains, limit, deadline)
            if isinstance(content, bytes):
                return content
            url = urljoin(url, content)
    except (OSError, HTTPException, ValueError) as error:
        _seconds_until(deadline)  # which may be why
        raise ImageError("it could not be fetched") from error
    raise ImageError(f"it redirects more than {REDIRECTS} times")


def _get(url: str, domains: Sequence[str], limit: int, deadline: float) -> bytes | str:
    """The content of one address, or where it redirects to."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", PORTS.get(parts.scheme)
    if port is None or parts.port not in (None, port) or parts.username or parts.password:
        raise ImageError("give an http or https address without a port or a user")
    if host not in domains:
        raise ImageError("its domain is not allowed: see --allow-url")
    addresses = [str(it[4][0]) for it in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not all(map(is_public, addresses)):
        raise ImageError("its address is not public")
    with closing(HTTPConnection(host, port)) as connection, ExitStack() as stack:
        seconds = _seconds_until(deadline)
        connection.sock = stream = socket.create_connection((addresses[0], port), seconds)
        if parts.scheme == "https":  # to a server whose certificate is the host's
            context = ssl.create_default_context()
            connection.sock = stream = context.wrap_socket(stream, server_hostname=host)
        timer = Timer(_seconds_until(deadline), cut, [stream])
        timer.start()  # for what trickles in, whose every part renews the timeout
        stack.callback(timer.cancel)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"Accept": "image/*"})
        with connection.getresponse() as reply:
            if reply.status in (301, 302, 303, 307, 308):
                return reply.getheader("Location", "")
            if reply.status != 200:
                raise ImageError(f"its server answered with status {reply.status}")
            content = reply.read(limit + 1)
        _seconds_until(deadline)  # else the timer may have cut it
    if len(content) > limit:
        raise ImageError(f"it is larger than {limit} bytes")
    return content


def cut(stream: socket.socket) -> None:
    """End a connection, in which a thread may be reading, without TLS's own end."""
    with suppress(OSError):  # it has ended
        socket.socket.shutdown(stream, socket.SHUT_RDWR)


def is_public(address: str) -> bool:
    """True for an address on the internet: not private, loopback, link-local, shared or special."""
    ip = ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_global and not ip.is_multicast and not any(ip in each for each in TRANSLATED)


def _seconds_until(deadline: float) -> float:
    seconds = deadline - monotonic()
    if seconds <= 0:
        raise ImageError("it took too long")
    return seconds


class ImageReader:
    """Opens the pictures that requests name; raises ApiError for those that are refused."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._decoding_lock = Lock()
        self._pictures = LatestValues[Picture](2**26, lambda it: prod(it.image.size))
        """By a digest of their URLs or files, up to 2²⁶ pixels: they are sent again and again."""

    def picture(self, url: str, param: str) -> Picture:
        """The picture at `url`; param: the field of the request, named in errors."""
        try:
            source = url if url[:5].lower() == "data:" else self._content(url)
            open_source = partial(self._open, source, param)
            if self._settings.isolate:
                return open_source()
            content = source.encode(errors="surrogatepass") if isinstance(source, str) else source
            return self._pictures.get(sha256(content).digest(), open_source)
        except ImageError as error:
            reason = str(error).removeprefix(f"{param}: ")  # with which those of decoders begin
            raise ApiError(400, f"{param}: {reason}", param, "invalid_image") from error

    def _open(self, source: str | bytes, param: str) -> Picture:
        """source: a data: URL, or the content of a file."""
        content = _decode_data_url(source) if isinstance(source, str) else source
        if len(content) > FILE_BYTES:
            raise ImageError(f"it is larger than {FILE_BYTES} bytes")
        with self._decoding_lock:  # warnings are silenced for the whole process meanwhile
            self._check_pixels(content)
            # Without the name of a field, which is another when the picture comes again.
            return replace(decode_picture(content, param), name="")

    def _content(self, url: str) -> bytes:
        """The content of a file, or at an address."""
        option = ""
        if url.startswith("file:"):
            if root := self._settings.media_root:
                return read_file(root, url, FILE_BYTES + 1)
            option = ", or start it with --media-root DIR"
        elif url.startswith(("http:", "https:")):
            if domains := self._settings.allow_url:
                return fetch(url, domains, FILE_BYTES)
            option = ", or start it with --allow-url DOMAIN"
        raise ImageError(f"not read by this server: send its content in base64{option}")

    def _check_pixels(self, content: bytes) -> None:
        """Raise ImageError for an image that, by its header, takes too much memory to decode."""
        try:
            file = BytesIO(content)
            # It warns of a size that is checked here.
            with warnings.catch_warnings(action="ignore"), Image.open(file, formats=FORMATS) as it:
                pixels: float = prod(it.size)
        except Image.DecompressionBombError:
            pixels = inf
        except Exception as error:  # damaged data makes decoders raise anything
            raise ImageError(f"it is not an image in {', '.join(FORMATS)}") from error
        if pixels > self._settings.max_pixels * 1e6:
            reason = f"it has more than {self._settings.max_pixels:g} million pixels"
            raise ImageError(f"{reason}: make it smaller; --max-pixels allows more")


def _decode_data_url(url: str) -> bytes:
    """The content of a data: URL."""
    head, comma, data = url.partition(",")
    kind, *parameters = head[len("data:") :].lower().split(";")
    if not comma:
        raise ImageError("a data: URL has a comma before its data: data:image/png;base64,…")
    is_unknown = kind.strip() in ("", "application/octet-stream")  # to the URL's writer
    if not (is_unknown or kind.strip().startswith("image/")):
        raise ImageError(f"a data: URL of {kind[:60]!r}: send an image, such as image/png")
    content = unquote_to_bytes(data.strip())
    if parameters[-1:] != ["base64"]:
        return content
    content = content.translate(None, b" \t\r\n\f")
    try:
        return base64.b64decode(content + b"=" * (-len(content) % 4), validate=True)
    except binascii.Error as error:
        raise ImageError("what follows base64, in the data: URL is not base64") from error


def read_file(root: Path, url: str, most: int) -> bytes:
    """First `most` bytes of the regular file that `url` names, inside `root`, links resolved."""
    try:
        path = (root / unquote(urlsplit(url).path)).resolve(strict=True)
        path.relative_to(root.resolve(strict=True))  # a ValueError outside
        # Without following a link that has come since, nor waiting for a pipe's writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ImageError("it is not a regular file")
            return file.read(most)
    except (OSError, ValueError, RuntimeError) as error:  # the last for a circle of links, in 3.11
        raise ImageError("there is no such file in the media root") from error
