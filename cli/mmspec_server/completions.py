"""The replies of `/v1/chat/completions`."""

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmspec.chat.session import Prefilled
from mmspec.decoding.statistics import Statistics
from mmspec_server.answers import Finished, Text
from mmspec_server.errors import ApiError
from mmspec_server.origins import Part
from mmspec_server.token_texts import Entry

DONE = "data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Completion:
    """Writes the reply to one request, whole or in chunks."""

    model: str
    include_usage: bool = False
    """True if a stream ends with the counts of tokens; its other events then have a null there."""
    details: bool = False
    """True for an object `mmspec`: in every event with text, and with the figures at the end."""
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, texts: Sequence[Text], finished: Finished) -> dict[str, Any]:
        """The object of an answer that is not streamed."""
        content = "".join(text.text for text in texts)
        message = {"role": "assistant", "content": content, "refusal": None}
        tokens = [token for text in texts for token in text.tokens]
        choice = {"message": message, **_logprobs(tokens), "finish_reason": finished.reason}
        usage, figures = _usage(finished.statistics), self._figures(finished)
        return self._object("chat.completion", [choice], usage=usage, **figures)

    def start(self) -> Iterator[str]:
        """The event before the first text."""
        yield self._chunk({"role": "assistant", "content": ""})

    def progress(self, prefilled: Prefilled) -> str:
        """The event of more of the prompt that has been read; empty without details."""
        if not self.details:
            return ""
        read = {"done": prefilled.done, "total": prefilled.total}
        return self._chunk({}, mmspec={"prompt": read})

    def delta(self, text: Text) -> str:
        """The event of more text; with details one for each part, the first with all tokens."""
        if not self.details or not text.parts:
            return self._chunk({"content": text.text}, text.tokens)
        tokens = [text.tokens, *[()] * (len(text.parts) - 1)]
        return "".join(map(self._part, text.parts, tokens))

    def _part(self, part: Part, tokens: Sequence[Entry]) -> str:
        return self._chunk({"content": part.text}, tokens, mmspec={"drafted": part.drafted})

    def end(self, finished: Finished) -> Iterator[str]:
        """The events after the last text."""
        yield self._chunk({}, reason=finished.reason, **self._figures(finished))
        if self.include_usage:
            counts = _usage(finished.statistics)
            yield _event(self._object("chat.completion.chunk", [], usage=counts))
        yield DONE

    def failure(self, error: ApiError) -> str:
        """The events of a stream that ends in an error."""
        return _event(error.body) + DONE

    def _figures(self, finished: Finished) -> dict[str, Any]:
        """The figures of an answer, if they were asked for."""
        if not self.details:
            return {}
        figures = {
            "speed_up": finished.speed_up,
            "plain_reason": finished.plain_reason,
            "stats": finished.statistics.as_dict(),
        }
        return {"mmspec": figures}

    def _chunk(
        self,
        delta: Mapping[str, Any],
        tokens: Sequence[Entry] = (),
        reason: str | None = None,
        **details: Any,
    ) -> str:
        choice = {"delta": delta, **_logprobs(tokens), "finish_reason": reason}
        without: dict[str, Any] = {"usage": None} if self.include_usage else {}
        return _event(self._object("chat.completion.chunk", [choice], **without, **details))

    def _object(self, kind: str, choices: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, **choice} for choice in choices],
            **fields,
        }


def _logprobs(tokens: Sequence[Entry]) -> dict[str, Any]:
    return {"logprobs": {"content": list(tokens), "refusal": None} if tokens else None}


def _event(value: Mapping[str, Any]) -> str:
    """A server-sent event with a JSON object."""
    return f"data: {json.dumps(value)}\n\n"


def _usage(statistics: Statistics) -> dict[str, Any]:
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
