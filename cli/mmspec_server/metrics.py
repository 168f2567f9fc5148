"""Counts what the server does, in Prometheus' text format."""

from collections import Counter
from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mmspec.decoding.statistics import Statistics

ADDRESSES = (
    "/health",
    "/metrics",
    "/v1/models",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
)
"""Addresses that are counted each; requests for others are counted together."""

PREFILL = ("vision", "caption", "prefill")
"""Stages of an answer before its first token."""

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


class Metrics:
    """Sums since the start of the server."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = dict.fromkeys(HELP, 0)
        self._requests: Counter[tuple[str, int]] = Counter()

    def request(self, path: str, status: int) -> None:
        """Count a reply."""
        self._requests[path if path in ADDRESSES else "other", status] += 1

    def answer(self, statistics: Statistics) -> None:
        """Count an answer."""
        seconds = statistics.seconds
        added = {
            "answers_total": 1,
            "prompt_tokens_total": statistics.prompt_tokens,
            "cached_tokens_total": statistics.cached_tokens,
            "completion_tokens_total": statistics.tokens,
            "drafted_tokens_total": statistics.drafted,
            "accepted_tokens_total": statistics.accepted,
            "rounds_total": statistics.rounds,
            "prefill_seconds_total": sum(seconds[name] for name in PREFILL),
            "decode_seconds_total": seconds["decode"],
        }
        for name, value in added.items():
            self._sums[name] += value

    def text(self, **gauges: int) -> str:
        """All sums and the values of gauges now."""
        return "".join(self._lines(gauges))

    def _lines(self, gauges: dict[str, int]) -> Iterator[str]:
        for name, text in HELP.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            yield f"# HELP mmspec_{name} {text}\n# TYPE mmspec_{name} {kind}\n"
            if name == "requests_total":
                for (path, status), count in sorted(self._requests.items()):
                    yield f'mmspec_{name}{{address="{path}",status="{status}"}} {count}\n'
            else:
                yield f"mmspec_{name} {gauges.get(name, self._sums[name])}\n"


class Counted:
    """ASGI middleware that counts replies."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and count its status."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.request(scope["path"], message["status"])
            await send(message)

        await self._app(scope, receive, counted)
