"""The replies to requests that are answered, whole and as events."""

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar

from mmspec.chat.session import Prefilled
from mmspec.decoding.statistics import Statistics
from mmspec.prompt.tool_calls import Call
from mmspec_server.answers import Entry, Finished, Text
from mmspec_server.chat_request import ChatRequest
from mmspec_server.endpoint import ApiError

DONE = "data: [DONE]\n\n"


@dataclass(slots=True)
class Completion:
    """Writes the reply to one request to `/v1/chat/completions`, whole or in chunks."""

    KIND: ClassVar[str] = "chat.completion"
    CHUNK: ClassVar[str] = "chat.completion.chunk"

    model: str
    request: ChatRequest
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, text: Text, finished: Finished) -> dict[str, Any]:
        """The object of an answer that is not streamed."""
        choice = self._whole(text, finished)
        usage = _usage(finished.statistics, "prompt", "completion")
        return self._object(self.KIND, [choice], usage=usage, **self._figures(finished))

    def start(self) -> str:
        """The event before the first text."""
        return self._chunk({"role": "assistant", "content": ""})

    def waiting(self, ahead: int) -> str:
        """The event of an answer that waits for `ahead` others; empty without details."""
        return self._chunk({}, mmspec={"waiting": ahead}) if self.request.details else ""

    def progress(self, prefilled: Prefilled) -> str:
        """The event of more of the prompt that has been read; empty without details."""
        if not self.request.details:
            return ""
        read = {"done": prefilled.done, "total": prefilled.total}
        return self._chunk({}, mmspec={"prompt": read})

    def delta(self, text: Text) -> str:
        """The event of more text; with details one for each part, the first with all tokens."""
        if not self.request.details or not text.parts:
            return self._chunk({"content": text.text}, text.tokens)
        tokens = [text.tokens, *[()] * (len(text.parts) - 1)]
        return "".join(
            self._chunk({"content": part.text}, entries, mmspec={"drafted": part.drafted})
            for part, entries in zip(text.parts, tokens, strict=True)
        )

    def end(self, finished: Finished) -> str:
        """The events after the last text."""
        calls = [{"index": n, **call} for n, call in enumerate(map(_call, finished.calls))]
        last = self._chunk({"tool_calls": calls}) if calls else ""
        last += self._chunk({}, reason=finished.reason, **self._figures(finished))
        if self.request.include_usage:
            counts = _usage(finished.statistics, "prompt", "completion")
            last += _event(self._object(self.CHUNK, [], usage=counts))
        return last + DONE

    def failure(self, error: ApiError) -> str:
        """The events of a stream that ends in an error."""
        return _event(error.body) + DONE

    def _figures(self, finished: Finished) -> dict[str, Any]:
        """The field `mmspec` at the end; with figures, if they were asked for."""
        own = _own(self.request, finished)
        if self.request.details:
            own |= {"speed_up": finished.speed_up, "plain_reason": finished.plain_reason}
            own |= {"stats": finished.statistics.as_dict()}
        return {"mmspec": own}

    def _chunk(
        self,
        delta: Mapping[str, Any],
        tokens: Sequence[Entry] = (),
        reason: str | None = None,
        **details: Any,
    ) -> str:
        without: dict[str, Any] = {"usage": None} if self.request.include_usage else {}
        choice = self._part(delta, tokens, reason)
        return _event(self._object(self.CHUNK, [choice], **without, **details))

    def _whole(self, text: Text, finished: Finished) -> dict[str, Any]:
        """The choice of a whole answer."""
        message: dict[str, Any] = {"role": "assistant", "content": text.text, "refusal": None}
        if finished.calls:
            message["content"] = text.text.strip() or None
            message["tool_calls"] = [*map(_call, finished.calls)]
        return {"message": message, **_logprobs(text.tokens), "finish_reason": finished.reason}

    def _part(
        self, delta: Mapping[str, Any], tokens: Sequence[Entry], reason: str | None
    ) -> dict[str, Any]:
        """The choice of a chunk."""
        return {"delta": delta, **_logprobs(tokens), "finish_reason": reason}

    def _object(self, kind: str, choices: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, **choice} for choice in choices],
            **fields,
        }


@dataclass(slots=True)
class TextCompletion(Completion):
    """Writes the reply to one request to `/v1/completions`, whole or in chunks."""

    KIND: ClassVar[str] = "text_completion"
    CHUNK: ClassVar[str] = KIND

    id: str = field(default_factory=lambda: f"cmpl-{secrets.token_hex(12)}")
    _offset: int = 0
    """Characters of the tokens that have been written."""

    def start(self) -> str:
        """Nothing: an answer has no role here."""
        return ""

    def _whole(self, text: Text, finished: Finished) -> dict[str, Any]:
        return self._part({"content": text.text}, text.tokens, finished.reason)

    def _part(
        self, delta: Mapping[str, Any], tokens: Sequence[Entry], reason: str | None
    ) -> dict[str, Any]:
        logprobs = self._logprobs(tokens) if tokens else None
        return {"text": delta.get("content", ""), "logprobs": logprobs, "finish_reason": reason}

    def _logprobs(self, tokens: Sequence[Entry]) -> dict[str, Any]:
        texts = [token["token"] for token in tokens]
        offsets = [*accumulate(map(len, texts), initial=self._offset)]
        self._offset = offsets.pop()
        likeliest = (token["top_logprobs"] for token in tokens)
        return {
            "tokens": texts,
            "token_logprobs": [token["logprob"] for token in tokens],
            "top_logprobs": [{top["token"]: top["logprob"] for top in tops} for tops in likeliest],
            "text_offset": offsets,
        }


@dataclass(slots=True)
class ResponseReply:
    """Writes the reply to one request to `/v1/responses`, whole or as typed events."""

    model: str
    request: ChatRequest
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))
    _texts: list[Text] = field(default_factory=list)
    _events: int = 0

    def whole(self, text: Text, finished: Finished) -> dict[str, Any]:
        """The object of a complete answer."""
        cut = finished.reason == "length"
        status = "incomplete" if cut else "completed"
        content = [_output_text(text.text, text.tokens)]
        reply = self._object(status, [self._item(status, content)])
        reply["incomplete_details"] = {"reason": "max_output_tokens"} if cut else None
        reply["usage"] = _usage(finished.statistics, "input", "output")
        reply["usage"]["output_tokens_details"]["reasoning_tokens"] = 0
        reply["mmspec"] = _own(self.request, finished)
        return reply

    def start(self) -> str:
        """The events before the first text."""
        begun, item = self._object("in_progress", []), self._item("in_progress", [])
        return (
            self._event("response.created", response=begun)
            + self._event("response.in_progress", response=begun)
            + self._event("response.output_item.added", output_index=0, item=item)
            + self._event("response.content_part.added", **self._place, part=_output_text("", []))
        )

    def waiting(self, _: object) -> str:
        """Nothing: this API has no event for it."""
        return ""

    progress = waiting

    def delta(self, text: Text) -> str:
        """The event of more text."""
        self._texts.append(text)
        return self._event(
            "response.output_text.delta", **self._place, delta=text.text, logprobs=text.tokens
        )

    def end(self, finished: Finished) -> str:
        """The events after the last text."""
        reply = self.whole(Text.joined(self._texts), finished)
        [item] = reply["output"]
        [part] = item["content"]
        text = {name: part[name] for name in ("text", "logprobs")}
        return (
            self._event("response.output_text.done", **self._place, **text)
            + self._event("response.content_part.done", **self._place, part=part)
            + self._event("response.output_item.done", output_index=0, item=item)
            + self._event(f"response.{reply['status']}", response=reply)
        )

    def failure(self, error: ApiError) -> str:
        """The event of a stream that ends in an error."""
        reply = self._object("failed", [])
        reply["error"] = {"code": error.code or "server_error", "message": error.message}
        return self._event("response.failed", response=reply)

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self.id}", "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> str:
        value = {"type": kind, "sequence_number": self._events, **fields}
        self._events += 1
        return f"event: {kind}\n{_event(value)}"

    def _item(self, status: str, content: list[Any]) -> dict[str, Any]:
        return {
            "id": f"msg_{self.id}",
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    def _object(self, status: str, output: list[Any]) -> dict[str, Any]:
        options = self.request.options
        return {
            "id": f"resp_{self.id}",
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


def _output_text(text: str, tokens: Sequence[Entry]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": tokens}


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": function}


def _logprobs(tokens: Sequence[Entry]) -> dict[str, Any]:
    return {"logprobs": {"content": list(tokens), "refusal": None} if tokens else None}


def _own(request: ChatRequest, finished: Finished) -> dict[str, Any]:
    """What every reply says in the field `mmspec`."""
    return {"seed": request.options.seed, "notes": list(finished.notes)}


def _event(value: Mapping[str, Any]) -> str:
    """A server-sent event with a JSON object."""
    return f"data: {json.dumps(value)}\n\n"


def _usage(statistics: Statistics, prompt: str, answer: str) -> dict[str, Any]:
    """The counts of tokens by an address' names, the drafted ones as OpenAI's predicted outputs."""
    return {
        f"{prompt}_tokens": statistics.prompt_tokens,
        f"{answer}_tokens": statistics.tokens,
        "total_tokens": statistics.prompt_tokens + statistics.tokens,
        f"{prompt}_tokens_details": {"cached_tokens": statistics.cached_tokens},
        f"{answer}_tokens_details": {
            "accepted_prediction_tokens": statistics.accepted,
            "rejected_prediction_tokens": statistics.drafted - statistics.accepted,
        },
    }
