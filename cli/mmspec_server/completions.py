"""The replies of `/v1/chat/completions`, `/v1/completions` and `/v1/responses`."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, ClassVar

from mmspec import Answer, Piece, Prefilled
from mmspec.prompt.tool_calls import Call
from mmspec_server.decoding import Event, Waiting
from mmspec_server.endpoint import ApiError
from mmspec_server.replies import Entry, Json, Reply, server_event

END = "data: [DONE]\n\n"


@dataclass(slots=True)
class Completion(Reply):
    """Writes the reply to one request to `/v1/chat/completions`, whole or in chunks."""

    KIND: ClassVar[str] = "chat.completion"
    CHUNK: ClassVar[str] = "chat.completion.chunk"
    PREFIX: ClassVar[str] = "chatcmpl"

    _text: str = ""
    _cursor: int = 0
    """Characters of the text that have been written; more may begin a call."""

    def whole(self, answer: Answer) -> Json:
        """The object of an answer whose pieces have been read."""
        calls, reason = self._ending(answer)
        message: Json = {"role": "assistant", "content": answer.text, "refusal": None}
        if self.form and calls:
            before = answer.text[: self.form.beginning(answer.text)].strip()
            message |= {"content": before or None, "tool_calls": calls}
        choice = self._choice("message", message, self.tokens, reason)
        usage = self.usage(answer, "prompt", "completion")
        return self._object(self.KIND, [choice], usage=usage, mmspec=self.extension(answer))

    def start(self) -> str:
        """The event before the first text."""
        return self._chunk({"role": "assistant", "content": ""})

    def event(self, event: Event | ApiError | None) -> str:
        """What to send of an answer's next event, or of its failure; empty for nothing."""
        match event:
            case Piece():
                return self._delta(event)
            case Answer():
                return self._end(event)
            case Prefilled() if self.request.details:
                return self._chunk({}, mmspec={"prompt": asdict(event)})
            case Waiting() if self.request.details:
                return self._chunk({}, mmspec={"waiting": event.ahead})
            case ApiError():
                return server_event(event.body) + END
        return ""

    def _delta(self, piece: Piece) -> str:
        """The event of more text that begins no call; with details, drafted and own text apart."""
        tokens, start, before = self.read(piece), self._cursor, len(self._text)
        self._text += piece.text
        end = self._cursor = self.form.beginning(self._text) if self.form else len(self._text)
        first, _ = piece.split(max(end - before, 0))
        backlog = self._text[start : min(before, end)]
        parts = [(backlog, False), (first.accepted, True), (first.own, False)]
        parts = [part for part in parts if part[0]]
        if not self.request.details or not parts:
            return self._chunk({"content": "".join(text for text, _ in parts)}, tokens)
        return "".join(  # all tokens are in the first chunk
            self._chunk({"content": text}, () if place else tokens, mmspec={"drafted": is_drafted})
            for place, (text, is_drafted) in enumerate(parts)
        )

    def _end(self, answer: Answer) -> str:
        """The events after the last text."""
        calls, reason = self._ending(answer)
        last = ""
        if calls:
            deltas = [{"index": number, **call} for number, call in enumerate(calls)]
            last = self._chunk({"tool_calls": deltas})
        elif self._cursor < len(self._text):
            self.form = None  # no call came: the text that may have begun one is sent
            last = self._delta(Piece("", ""))
        last += self._chunk({}, reason=reason, mmspec=self.extension(answer))
        if self.request.include_usage:
            usage = self.usage(answer, "prompt", "completion")
            last += server_event(self._object(self.CHUNK, [], usage=usage))
        return last + END

    def _ending(self, answer: Answer) -> tuple[list[Json], str]:
        """The calls in an answer, of at most as many as the request allows, and why it ended."""
        calls = self.form.read(answer.text)[: self.request.calls] if self.form else []
        reason = "stop" if answer.finish_reason == "stop" else "length"
        return [_call(call) for call in calls], "tool_calls" if calls else reason

    def _chunk(
        self, delta: Json, tokens: Sequence[Entry] = (), reason: str | None = None, **more: Any
    ) -> str:
        usage: Json = {"usage": None} if self.request.include_usage else {}
        choice = self._choice("delta", delta, tokens, reason)
        return server_event(self._object(self.CHUNK, [choice], **usage, **more))

    def _choice(self, kind: str, body: Json, tokens: Sequence[Entry], reason: str | None) -> Json:
        """kind: "message" for the whole body, "delta" for more of it."""
        logprobs = {"content": list(tokens), "refusal": None} if tokens else None
        return {kind: body, "logprobs": logprobs, "finish_reason": reason}

    def _object(self, kind: str, choices: list[Json], **fields: Any) -> Json:
        head = {"id": f"{self.PREFIX}-{self.id}", "object": kind, "created": self.created}
        choices = [{"index": 0, **choice} for choice in choices]
        return {**head, "model": self.model, "choices": choices, **fields}


@dataclass(slots=True)
class TextCompletion(Completion):
    """Writes the reply to one request to `/v1/completions`, whole or in chunks."""

    KIND: ClassVar[str] = "text_completion"
    CHUNK: ClassVar[str] = KIND
    PREFIX: ClassVar[str] = "cmpl"

    _offset: int = 0
    """Characters of the tokens that have been written."""

    def start(self) -> str:
        """Nothing: an answer has no role here."""
        return ""

    def _choice(self, _kind: str, body: Json, tokens: Sequence[Entry], reason: str | None) -> Json:
        texts = [token["token"] for token in tokens]
        offsets = [*accumulate(map(len, texts), initial=self._offset)]
        self._offset = offsets.pop()
        likeliest = (token["top_logprobs"] for token in tokens)
        logprobs = {
            "tokens": texts,
            "token_logprobs": [token["logprob"] for token in tokens],
            "top_logprobs": [{top["token"]: top["logprob"] for top in tops} for tops in likeliest],
            "text_offset": offsets,
        }
        text = body.get("content", "")
        return {"text": text, "logprobs": logprobs if tokens else None, "finish_reason": reason}


@dataclass(slots=True)
class ResponseReply(Reply):
    """Writes the reply to one request to `/v1/responses`, whole or as typed events."""

    _events: int = 0

    def whole(self, answer: Answer) -> Json:
        """The object of an answer whose pieces have been read."""
        is_cut = answer.finish_reason != "stop"
        status = "incomplete" if is_cut else "completed"
        content = [_output_text(answer.text, self.tokens)]
        reply = self._object(status, [self._item(status, content)])
        reply["incomplete_details"] = {"reason": "max_output_tokens"} if is_cut else None
        reply["usage"] = self.usage(answer, "input", "output")
        reply["usage"]["output_tokens_details"]["reasoning_tokens"] = 0
        reply["mmspec"] = self.extension(answer)
        return reply

    def start(self) -> str:
        """The events before the first text."""
        response, item = self._object("in_progress", []), self._item("in_progress", [])
        return (
            self._event("created", response=response)
            + self._event("in_progress", response=response)
            + self._event("output_item.added", output_index=0, item=item)
            + self._event("content_part.added", **self._place, part=_output_text("", []))
        )

    def event(self, event: Event | ApiError | None) -> str:
        """What to send of an answer's next event, or of its failure; empty for nothing."""
        match event:
            case Piece():
                place, tokens = self._place, self.read(event)
                return self._event("output_text.delta", **place, delta=event.text, logprobs=tokens)
            case Answer():
                return self._end(event)
            case ApiError():
                reply = self._object("failed", [])
                reply["error"] = {"code": event.code or "server_error", "message": event.message}
                return self._event("failed", response=reply)
        return ""

    def _end(self, answer: Answer) -> str:
        """The events after the last text."""
        reply = self.whole(answer)
        [item] = reply["output"]
        [part] = item["content"]
        text = {name: part[name] for name in ("text", "logprobs")}
        return (
            self._event("output_text.done", **self._place, **text)
            + self._event("content_part.done", **self._place, part=part)
            + self._event("output_item.done", output_index=0, item=item)
            + self._event(reply["status"], response=reply)
        )

    @property
    def _place(self) -> Json:
        return {"item_id": f"msg_{self.id}", "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> str:
        kind = f"response.{kind}"
        value = {"type": kind, "sequence_number": self._events, **fields}
        self._events += 1
        return f"event: {kind}\n{server_event(value)}"

    def _item(self, status: str, content: list[Any]) -> Json:
        kind = {"id": f"msg_{self.id}", "type": "message", "role": "assistant"}
        return {**kind, "status": status, "content": content}

    def _object(self, status: str, output: list[Any]) -> Json:
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


def _output_text(text: str, tokens: Sequence[Entry]) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": tokens}


def _call(call: Call) -> Json:
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": function}
