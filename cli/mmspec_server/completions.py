"""The replies of `/v1/chat/completions`."""

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mmspec.decoding.statistics import Statistics
from mmspec_server.errors import ApiError

DONE = "data: [DONE]\n\n"
KEEP_ALIVE = ": waiting\n\n"


@dataclass(frozen=True, slots=True)
class Completion:
    """Writes the reply to one request, whole or in chunks."""

    model: str
    include_usage: bool = False
    """True if a stream ends with the counts of tokens; its other events then have a null there."""
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, text: str, reason: str, statistics: Statistics) -> dict[str, Any]:
        """The object of an answer that is not streamed."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return self._object("chat.completion", [choice], usage=usage(statistics))

    def chunk(self, delta: Mapping[str, Any], reason: str | None = None) -> str:
        """An event of a stream with a part of the answer."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        without: dict[str, Any] = {"usage": None} if self.include_usage else {}
        return event(self._object("chat.completion.chunk", [choice], **without))

    def usage_chunk(self, statistics: Statistics) -> str:
        """The event of a stream with the counts of tokens."""
        return event(self._object("chat.completion.chunk", [], usage=usage(statistics)))

    def _object(self, kind: str, choices: list[Any], **fields: Any) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
            **fields,
        }


def event(value: Mapping[str, Any]) -> str:
    """A server-sent event with a JSON object."""
    return f"data: {json.dumps(value)}\n\n"


def failure(error: ApiError) -> str:
    """The event of a stream that ends in an error."""
    return event(error.body)


def usage(statistics: Statistics) -> dict[str, Any]:
    """The counts of tokens, the drafted ones under OpenAI's names for predicted outputs."""
    return {
        "prompt_tokens": statistics.prompt_tokens,
        "completion_tokens": statistics.tokens,
        "total_tokens": statistics.prompt_tokens + statistics.tokens,
        "prompt_tokens_details": {"cached_tokens": statistics.cached_tokens},
        "completion_tokens_details": {
            "accepted_prediction_tokens": statistics.accepted,
            "rejected_prediction_tokens": statistics.drafted - statistics.accepted,
        },
    }
