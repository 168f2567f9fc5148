"""The replies of `/v1/responses`."""

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmspec.chat.session import Prefilled
from mmspec.decoding.statistics import Statistics
from mmspec_server.answers import Finished, Text
from mmspec_server.chat_request import ChatRequest
from mmspec_server.errors import ApiError
from mmspec_server.token_texts import Entry


@dataclass(slots=True)
class ResponseReply:
    """Writes the reply to one request, whole or as typed events."""

    model: str
    request: ChatRequest
    id: str = field(default_factory=lambda: f"resp_{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))
    _texts: list[Text] = field(default_factory=list)
    _events: int = 0

    def whole(self, texts: Sequence[Text], finished: Finished) -> dict[str, Any]:
        """The object of a complete answer."""
        text, tokens = "".join(text.text for text in texts), _tokens(texts)
        cut = finished.reason == "length"
        status = "incomplete" if cut else "completed"
        reply = self._object(status, [self._item(status, [_part(text, tokens)])])
        reply["incomplete_details"] = {"reason": "max_output_tokens"} if cut else None
        reply["usage"] = _usage(finished.statistics)
        return reply

    def start(self) -> Iterator[str]:
        """The events before the first text."""
        begun = self._object("in_progress", [])
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        item = self._item("in_progress", [])
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._event("response.content_part.added", **self._place, part=_part("", []))

    def progress(self, _: Prefilled) -> str:
        """Nothing: this API has no event for it."""
        return ""

    def delta(self, text: Text) -> str:
        """The event of more text."""
        self._texts.append(text)
        return self._event(
            "response.output_text.delta", **self._place, delta=text.text, logprobs=text.tokens
        )

    def end(self, finished: Finished) -> Iterator[str]:
        """The events after the last text."""
        reply = self.whole(self._texts, finished)
        [item] = reply["output"]
        [part] = item["content"]
        text = {name: part[name] for name in ("text", "logprobs")}
        yield self._event("response.output_text.done", **self._place, **text)
        yield self._event("response.content_part.done", **self._place, part=part)
        yield self._event("response.output_item.done", output_index=0, item=item)
        yield self._event(f"response.{reply['status']}", response=reply)

    def failure(self, error: ApiError) -> str:
        """The event of a stream that ends in an error."""
        reply = self._object("failed", [])
        reply["error"] = {"code": error.code or "server_error", "message": error.message}
        return self._event("response.failed", response=reply)

    @property
    def _message_id(self) -> str:
        return self.id.replace("resp_", "msg_")

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._message_id, "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> str:
        value = {"type": kind, "sequence_number": self._events, **fields}
        self._events += 1
        return f"event: {kind}\ndata: {json.dumps(value)}\n\n"

    def _item(self, status: str, content: list[Any]) -> dict[str, Any]:
        return {
            "id": self._message_id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    def _object(self, status: str, output: list[Any]) -> dict[str, Any]:
        options = self.request.options
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "output": output,
            "max_output_tokens": options.max_new_tokens,
            "temperature": options.sampling.temperature,
            "top_p": options.sampling.top_p,
            "top_logprobs": options.logprobs or 0,
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
            "store": False,
            "usage": None,
        }


def _part(text: str, tokens: Sequence[Entry]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": tokens}


def _tokens(texts: Sequence[Text]) -> list[Entry]:
    return [token for text in texts for token in text.tokens]


def _usage(statistics: Statistics) -> dict[str, Any]:
    return {
        "input_tokens": statistics.prompt_tokens,
        "input_tokens_details": {"cached_tokens": statistics.cached_tokens},
        "output_tokens": statistics.tokens,
        "output_tokens_details": {
            "reasoning_tokens": 0,
            "accepted_prediction_tokens": statistics.accepted,
            "rejected_prediction_tokens": statistics.drafted - statistics.accepted,
        },
        "total_tokens": statistics.prompt_tokens + statistics.tokens,
    }
