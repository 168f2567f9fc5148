"""What every request passes: a count of the replies, and checks of Host, Origin and key."""

import hmac
from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mmspec.decoding.statistics import Statistics
from mmspec_server.endpoint import ApiError, failure
from mmspec_server.settings import ServerSettings, is_address, is_loopback, name_in

HELP = {
    "requests_total": "Requests by address and status.",
    "answers_total": "Answers that came to their end.",
    "prompt_tokens_total": "Tokens of prompts.",
    "cached_tokens_total": "Tokens of prompts that were in a cache.",
    "completion_tokens_total": "Tokens of answers.",
    "drafted_tokens_total": "Drafted tokens.",
    "accepted_tokens_total": "Drafted tokens that were accepted.",
    "rounds_total": "Rounds: forwards of the target while decoding.",
    "prefill_seconds_total": "Seconds in which prompts and images were computed.",
    "decode_seconds_total": "Seconds in which answers were decoded.",
    "jobs": "Requests that are answered or wait.",
    "cached_conversations": "Conversations whose caches are kept.",
    "cache_bytes": "Bytes of these caches.",
}

PAGE = "/page/"
"""Beginning of the addresses of the page's files."""


class Metrics:
    """Sums since the start of the server, in Prometheus' text format."""

    def __init__(self) -> None:
        names = (name for name in HELP if name != "requests_total")  # which has labels
        self._sums = defaultdict[str, float](float, dict.fromkeys(names, 0))

    def counter(self, app: ASGIApp, addresses: Container[str]) -> ASGIApp:
        """The application, whose replies are counted, those of other addresses together."""

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            address = scope["path"] if scope["path"] in addresses else "other"

            async def count_and_send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    labels = f'address="{address}",status="{message["status"]}"'
                    self._sums[f"requests_total{{{labels}}}"] += 1
                await send(message)

            await app(scope, receive, count_and_send)

        return respond

    def answer(self, statistics: Statistics) -> None:
        """Count an answer."""
        sums, seconds = self._sums, statistics.seconds
        sums["answers_total"] += 1
        sums["prompt_tokens_total"] += statistics.prompt_tokens
        sums["cached_tokens_total"] += statistics.cached_tokens
        sums["completion_tokens_total"] += statistics.tokens
        sums["drafted_tokens_total"] += statistics.drafted
        sums["accepted_tokens_total"] += statistics.accepted
        sums["rounds_total"] += statistics.rounds
        sums["prefill_seconds_total"] += sum(seconds[it] for it in ("vision", "caption", "prefill"))
        sums["decode_seconds_total"] += seconds["decode"]

    def text(self, **gauges: int) -> str:
        """All sums and the values of gauges now."""
        lines, values = [], sorted((self._sums | gauges).items())
        for name, text in HELP.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP mmspec_{name} {text}", f"# TYPE mmspec_{name} {kind}"]
            lines += [f"mmspec_{key} {n}" for key, n in values if key.partition("{")[0] == name]
        return "\n".join([*lines, ""])


@dataclass(frozen=True, slots=True)
class Guard:
    """ASGI middleware that refuses a request unread, or passes it on; its errors become replies."""

    app: ASGIApp
    settings: ServerSettings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        path = scope["path"]
        try:
            public = path in ("/", "/health") or path.startswith(PAGE)  # the same for everyone
            self._check(Headers(scope=scope), needs_key=not public)
            await self.app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - a client gets a reply, whatever happens
            reply = await failure(None, error)
            await reply(scope, receive, send)

    def _check(self, headers: Headers, *, needs_key: bool) -> None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_own_name(host):
            reason = "the Host header names another server: see --allow-host"
            raise ApiError(403, reason, code="host_not_allowed")
        if origin not in (None, f"http://{host}", *self.settings.allow_origin):  # None: no page
            reason = "web pages of this origin may not ask: see --allow-origin"
            raise ApiError(403, reason, code="origin_not_allowed")
        if needs_key and not self._has_key(headers.get("authorization", "")):
            challenge = {"WWW-Authenticate": "Bearer"}
            reason = "the API key is missing or wrong: send Authorization: Bearer KEY"
            raise ApiError(401, reason, code="invalid_api_key", headers=challenge)

    def _is_own_name(self, header: str) -> bool:
        """True unless a Host header could come from a page whose name was bound to this address."""
        host = self.settings.host.lower()
        name, *own_names = map(name_in, (header, *self.settings.allow_host))
        is_own = is_loopback if is_loopback(host) else is_address
        return is_own(name) or name in (*own_names, host, "localhost")

    def _has_key(self, authorization: str) -> bool:
        """True if a request shows the key, or none is needed."""
        if not self.settings.api_key:
            return True
        scheme, _, key = authorization.partition(" ")
        # Digests have one length, so the comparison takes equally long for every key.
        digests = (sha256(text.encode()).digest() for text in (key.strip(), self.settings.api_key))
        return hmac.compare_digest(*digests) and scheme.lower() == "bearer"
