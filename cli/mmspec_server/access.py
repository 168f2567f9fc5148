"""Who may ask: checks the Host, the Origin and the key of every request."""

import hmac
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mmspec.ground.errors import UsageError
from mmspec_server.endpoint import ApiError, refused


@dataclass(frozen=True, slots=True)
class Access:
    """Whom a server answers; raises UsageError for a host that others reach without a key."""

    host: str = "127.0.0.1"
    """The address that the server listens on."""
    key: str = ""
    """The key that every request must show; empty if none is needed."""
    names: Sequence[str] = ()
    """Further names of this server in a Host header."""
    origins: Sequence[str] = ()
    """Web pages of other origins that may ask, such as 'http://localhost:3000'."""

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and not self.key:
            raise UsageError(
                f"--host {self.host} is reachable from other machines: give --api-key too, or set "
                "MMSPEC_API_KEY"
            )

    def check(self, headers: Headers, *, needs_key: bool = True) -> None:
        """Raise ApiError for a request that is not answered."""
        if not self._is_own_name(headers.get("host", "")):
            reason = "the Host header names another server: see --allow-host"
            raise ApiError(403, reason, code="host_not_allowed")
        if not self.allows_origin(headers):
            reason = "web pages of this origin may not ask: see --allow-origin"
            raise ApiError(403, reason, code="origin_not_allowed")
        if needs_key and self.key and not self._has_key(headers.get("authorization", "")):
            challenge = {"WWW-Authenticate": "Bearer"}
            reason = "the API key is missing or wrong: send Authorization: Bearer KEY"
            raise ApiError(401, reason, code="invalid_api_key", headers=challenge)

    def allows_origin(self, headers: Headers) -> bool:
        """True if no web page asks, or one of this server or of the allowed origins."""
        origin = headers.get("origin")
        own = f"http://{headers.get('host', '')}"
        return origin is None or origin == own or origin in self.origins

    def _is_own_name(self, header: str) -> bool:
        """True unless a Host header could come from a page whose name was bound to this address."""
        name = _hostname(header)
        own = {each.lower() for each in self.names}  # a Host header's name has no capitals here
        if is_loopback(self.host):
            return is_loopback(name) or name in own
        return _is_address(name) or name in own | {self.host.lower(), "localhost"}

    def _has_key(self, authorization: str) -> bool:
        scheme, _, key = authorization.partition(" ")
        # Digests have one length, so the comparison takes equally long for every key.
        theirs, own = (sha256(text.encode()).digest() for text in (key.strip(), self.key))
        return hmac.compare_digest(theirs, own) and scheme.lower() == "bearer"


class Guard:
    """ASGI middleware that passes on what `Access` allows."""

    def __init__(self, app: ASGIApp, access: Access, public: Collection[str]) -> None:
        """public: the paths that need no key."""
        self._app, self._access, self._public = app, access, public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it before its body is read."""
        try:
            self._access.check(Headers(scope=scope), needs_key=scope["path"] not in self._public)
        except ApiError as error:
            await refused(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_loopback(name: str) -> bool:
    """True for the addresses and the name under which only this machine reaches itself."""
    return name.lower() == "localhost" or (_is_address(name) and ip_address(name).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _hostname(header: str) -> str:
    """The name in a Host header, without its port; empty if it is malformed."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""
