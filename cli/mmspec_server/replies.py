"""The reply to a request: what all have in common, and the streams in which it is sent."""

import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from mmspec import Answer, Piece
from mmspec.chat.loaded_model import LoadedModel
from mmspec.decoding.statistics import Likelihood
from mmspec.prompt.tool_calls import CallForm
from mmspec_server.chat_request import ChatRequest
from mmspec_server.decoding import Event, Job
from mmspec_server.endpoint import ApiError, api_error

Json = dict[str, Any]
Entry = Json
"""A token's text, bytes and log-probability, and those of the likeliest tokens."""


@dataclass(slots=True)
class Reply(ABC):
    """Writes the reply to one request, whole or as server-sent events."""

    model: str
    request: ChatRequest
    target: LoadedModel
    form: CallForm | None = None
    """How the answer writes calls of tools; None if it may call none."""
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))
    tokens: list[Entry] = field(default_factory=list)
    """Tokens whose text begins in the pieces that were read, without stop tokens."""

    @abstractmethod
    def start(self) -> str:
        """The events before the first text."""

    @abstractmethod
    def event(self, event: Event | ApiError | None) -> str:
        """What to send of an answer's next event, or of its failure; empty for nothing."""

    @abstractmethod
    def whole(self, answer: Answer) -> Json:
        """The object of an answer whose pieces have been read."""

    def read(self, piece: Piece) -> list[Entry]:
        """The tokens that begin in the next piece."""
        before = len(self.tokens)
        for likelihood in piece.likelihoods:
            if likelihood.token not in self.target.stop:
                self.tokens.append(self._entry(likelihood))
        return self.tokens[before:]

    def _entry(self, likelihood: Likelihood) -> Entry:
        has_begun = self.request.text is not None or any(token["bytes"] for token in self.tokens)

        def entry(token: int, logprob: float) -> Entry:
            content = self.target.tokenizer.bytes_of(token)
            # An answer's text does not begin with the space before its first word.
            if not has_begun:
                content = content.removeprefix(b" ")
            text = content.decode(errors="replace")
            return {"token": text, "bytes": [*content], "logprob": logprob}

        likeliest = [entry(*pair) for pair in likelihood.likeliest]
        return {**entry(likelihood.token, likelihood.logprob), "top_logprobs": likeliest}

    def extension(self, answer: Answer) -> Json:
        """The field `mmspec`; with figures, if they were asked for."""
        fields = {"seed": self.request.options.seed, "notes": list(answer.notes)}
        if self.request.details:
            fields |= {"speed_up": answer.speed_up, "plain_reason": answer.plain_reason}
            fields |= {"stats": answer.statistics.as_dict()}
        return fields

    def usage(self, answer: Answer, prompt: str, text: str) -> Json:
        """The counts by an address' names, of drafted tokens as OpenAI's predicted outputs."""
        statistics = answer.statistics
        return {
            f"{prompt}_tokens": statistics.prompt_tokens,
            f"{text}_tokens": statistics.tokens,
            "total_tokens": statistics.prompt_tokens + statistics.tokens,
            f"{prompt}_tokens_details": {"cached_tokens": statistics.cached_tokens},
            f"{text}_tokens_details": {
                "accepted_prediction_tokens": statistics.accepted,
                "rejected_prediction_tokens": statistics.drafted - statistics.accepted,
            },
        }


def server_event(value: Json) -> str:
    """A server-sent event with a JSON object."""
    return f"data: {json.dumps(value)}\n\n"


class EventStream(StreamingResponse):
    """Server-sent events; a client that leaves ends the answer."""

    def __init__(self, reply: Reply, job: Job, silence: float) -> None:
        """silence: seconds without an event after which a comment is sent."""
        self._job, texts = job, stream(reply, job.events(silence))
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(texts, media_type="text/event-stream", headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until their end, or until the client leaves."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._job.leave()


async def stream(reply: Reply, events: AsyncIterator[Event | None]) -> AsyncIterator[str]:
    """The texts to send: the start, one of each event, and a comment where no event comes."""
    start = reply.start()
    try:
        async for event in events:
            yield start + (reply.event(event) or ": waiting\n\n")  # which clients ignore
            start = ""
    except Exception as error:  # noqa: BLE001 - the status has been sent: the stream says it
        yield start + reply.event(api_error(error))


async def whole(http_request: Request, reply: Reply, job: Job) -> Json:
    """The object of a complete answer; empty if the client has left."""
    try:
        async for event in job.events(0.1):  # None comes to look whether the client has left
            if isinstance(event, Answer):
                return reply.whole(event)
            if isinstance(event, Piece):
                reply.read(event)
            if await http_request.is_disconnected():
                break
    finally:
        job.leave()
    return {}
