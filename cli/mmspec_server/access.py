"""Who may ask: checks the Host, the Origin and the key of every request."""

import hmac
from collections.abc import Collection
from hashlib import sha256
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mmspec_server.endpoint import ApiError, refused
from mmspec_server.settings import ServerSettings, is_address, is_loopback


class Guard:
    """ASGI middleware that refuses a request before its body is read, or passes it on."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, public: Collection[str]) -> None:
        """public: the paths that need no key."""
        self._app, self._settings, self._public = app, settings, public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        try:
            self._check(Headers(scope=scope), needs_key=scope["path"] not in self._public)
        except ApiError as error:
            await refused(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, headers: Headers, *, needs_key: bool) -> None:
        if not self._is_own_name(headers.get("host", "")):
            reason = "the Host header names another server: see --allow-host"
            raise ApiError(403, reason, code="host_not_allowed")
        if not self._allows_origin(headers):
            reason = "web pages of this origin may not ask: see --allow-origin"
            raise ApiError(403, reason, code="origin_not_allowed")
        if needs_key and not self._has_key(headers.get("authorization", "")):
            challenge = {"WWW-Authenticate": "Bearer"}
            reason = "the API key is missing or wrong: send Authorization: Bearer KEY"
            raise ApiError(401, reason, code="invalid_api_key", headers=challenge)

    def _allows_origin(self, headers: Headers) -> bool:
        """True if no web page asks, or one of this server or of the allowed origins."""
        origin = headers.get("origin")
        own = f"http://{headers.get('host', '')}"
        return origin is None or origin == own or origin in self._settings.allow_origin

    def _is_own_name(self, header: str) -> bool:
        """True unless a Host header could come from a page whose name was bound to this address."""
        name, host = _hostname(header), self._settings.host.lower()
        # A Host header's name has no capitals here.
        own = {each.lower() for each in self._settings.allow_host}
        if is_loopback(host):
            return is_loopback(name) or name in own
        return is_address(name) or name in own | {host, "localhost"}

    def _has_key(self, authorization: str) -> bool:
        """True if a request shows the key, or none is needed."""
        if not self._settings.api_key:
            return True
        scheme, _, key = authorization.partition(" ")
        # Digests have one length, so the comparison takes equally long for every key.
        shown, own = (sha256(text.encode()) for text in (key.strip(), self._settings.api_key))
        return hmac.compare_digest(shown.digest(), own.digest()) and scheme.lower() == "bearer"


def _hostname(header: str) -> str:
    """The name in a Host header, without its port; empty if it is malformed."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""
