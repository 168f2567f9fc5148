"""Fetches images from allowed domains, at addresses that were checked to be public."""

import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import IPv6Address, IPv6Network, ip_address
from time import monotonic
from urllib.parse import SplitResult, urljoin, urlsplit

PORTS = {"http": 80, "https": 443}
REDIRECTS = 3
REDIRECTED = (301, 302, 303, 307, 308)
PART = 65536
"""Bytes read at a time."""

TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv6 addresses that gateways translate to IPv4 ones."""


class RefusedImage(Exception):
    """An image that is not fetched or read; the message says why, and names no path."""


def _resolve(host: str, port: int) -> list[str]:
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches from `domains` alone; every redirect is checked like the first address."""

    domains: Sequence[str]
    """Exact host names, without their subdomains."""
    seconds: float = 10.0
    """Seconds for one image, redirects included."""
    resolve: Callable[[str, int], list[str]] = _resolve
    """The addresses of a host and port; raises OSError if there is none."""
    connect: Callable[[tuple[str, int], float], socket.socket] = socket.create_connection

    def fetch(self, url: str, limit: int) -> bytes:
        """The content at `url`, at most `limit` bytes; raises RefusedImage."""
        deadline = monotonic() + self.seconds
        try:
            for _ in range(REDIRECTS + 1):
                content = self._get(url, limit, deadline)
                if isinstance(content, bytes):
                    return content
                url = urljoin(url, content)
        except (OSError, HTTPException, ValueError) as error:
            raise RefusedImage("it could not be fetched") from error
        raise RefusedImage(f"it redirects more than {REDIRECTS} times")

    def _get(self, url: str, limit: int, deadline: float) -> bytes | str:
        """The content of one address, or where it redirects to."""
        parts = self._checked(url)
        port = PORTS[parts.scheme]
        connection = HTTPConnection(parts.hostname or "", port)
        with closing(connection):
            connection.sock = stream = self._socket(parts, port, deadline)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", target, headers={"Accept": "image/*"})
            with connection.getresponse() as reply:
                if reply.status in REDIRECTED:
                    return reply.getheader("Location", "")
                if reply.status != 200:
                    raise RefusedImage(f"its server answered with status {reply.status}")
                return _read(reply, stream, limit, deadline)

    def _checked(self, url: str) -> SplitResult:
        parts = urlsplit(url)
        port = PORTS.get(parts.scheme)
        if port is None or parts.port not in (None, port) or parts.username or parts.password:
            raise RefusedImage("give an http or https address without a port or a user")
        if (parts.hostname or "").lower() not in self.domains:
            raise RefusedImage("its domain is not allowed: see --allow-url")
        return parts

    def _socket(self, parts: SplitResult, port: int, deadline: float) -> socket.socket:
        """A connection to an address of the host that was checked just now."""
        host = parts.hostname or ""
        addresses = self.resolve(host, port)
        if not addresses or not all(map(is_public, addresses)):
            raise RefusedImage("its address is not public")
        plain = self.connect((addresses[0], port), _left(deadline))
        if parts.scheme == "http":
            return plain
        try:  # to a server whose certificate is the host's
            return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise


def is_public(address: str) -> bool:
    """True for an address on the internet: not private, loopback, link-local, shared or special."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped:
            return is_public(str(ip.ipv4_mapped))
        if ip.sixtofour or ip.teredo or ip in TRANSLATED:
            return False
    return ip.is_global and not ip.is_multicast


def _read(reply: HTTPResponse, stream: socket.socket, limit: int, deadline: float) -> bytes:
    content = bytearray()
    while len(content) <= limit:
        stream.settimeout(_left(deadline))
        part = reply.read1(PART)
        if not part:
            return bytes(content)
        content += part
    raise RefusedImage(f"it is larger than {limit} bytes")


def _left(deadline: float) -> float:
    seconds = deadline - monotonic()
    if seconds <= 0:
        raise RefusedImage("it took too long")
    return seconds
