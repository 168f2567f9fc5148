"""The replies of `/v1/chat/completions` and `/v1/completions`."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, ClassVar

from mmspec.chat.answer import Answer, Piece
from mmspec.chat.session import Prefilled
from mmspec.prompt.tool_calls import Call
from mmspec_server.decoding import Event, Waiting
from mmspec_server.endpoint import ApiError
from mmspec_server.replies import Entry, Reply, server_event

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

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The object of an answer whose pieces have been read."""
        calls, reason = self._ending(answer)
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
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
            self.form = None
            last = self._delta(Piece("", ""))
        last += self._chunk({}, reason=reason, mmspec=self.extension(answer))
        if self.request.include_usage:
            usage = self.usage(answer, "prompt", "completion")
            last += server_event(self._object(self.CHUNK, [], usage=usage))
        return last + END

    def _ending(self, answer: Answer) -> tuple[list[dict[str, Any]], str]:
        """The calls in an answer, of at most as many as the request allows, and why it ended."""
        calls = self.form.read(answer.text)[: self.request.calls] if self.form else []
        reason = "stop" if answer.finish_reason == "stop" else "length"
        return [_call(call) for call in calls], "tool_calls" if calls else reason

    def _chunk(
        self,
        delta: Mapping[str, Any],
        tokens: Sequence[Entry] = (),
        reason: str | None = None,
        **details: Any,
    ) -> str:
        usage: dict[str, Any] = {"usage": None} if self.request.include_usage else {}
        choice = self._choice("delta", delta, tokens, reason)
        return server_event(self._object(self.CHUNK, [choice], **usage, **details))

    def _choice(
        self, kind: str, body: Mapping[str, Any], tokens: Sequence[Entry], reason: str | None
    ) -> dict[str, Any]:
        """kind: "message" for the whole body, "delta" for more of it."""
        logprobs = {"content": list(tokens), "refusal": None} if tokens else None
        return {kind: body, "logprobs": logprobs, "finish_reason": reason}

    def _object(self, kind: str, choices: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        return {
            "id": f"{self.PREFIX}-{self.id}",
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
    PREFIX: ClassVar[str] = "cmpl"

    _offset: int = 0
    """Characters of the tokens that have been written."""

    def start(self) -> str:
        """Nothing: an answer has no role here."""
        return ""

    def _choice(
        self, _kind: str, body: Mapping[str, Any], tokens: Sequence[Entry], reason: str | None
    ) -> dict[str, Any]:
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


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": function}
