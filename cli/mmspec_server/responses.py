"""The reply of `/v1/responses`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmspec.chat.answer import Answer, Piece
from mmspec_server.decoding import Event
from mmspec_server.endpoint import ApiError
from mmspec_server.replies import Entry, Reply, server_event


@dataclass(slots=True)
class ResponseReply(Reply):
    """Writes the reply to one request to `/v1/responses`, whole or as typed events."""

    _events: int = 0

    def whole(self, answer: Answer) -> dict[str, Any]:
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
    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self.id}", "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> str:
        kind = f"response.{kind}"
        value = {"type": kind, "sequence_number": self._events, **fields}
        self._events += 1
        return f"event: {kind}\n{server_event(value)}"

    def _item(self, status: str, content: list[Any]) -> dict[str, Any]:
        kind = {"id": f"msg_{self.id}", "type": "message", "role": "assistant"}
        return {**kind, "status": status, "content": content}

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
