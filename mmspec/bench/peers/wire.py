"""What the two ends of a worker's pipe say: one JSON object a line.

Standard library alone: a worker may run in another environment, and its start-up is measured.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker loads."""

    model: str
    """Directory of the checkpoint."""
    draft: str | None = None
    """Directory of the draft's; None decodes without one."""
    device: str = "auto"
    dtype: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)
    """What one worker alone understands."""


@dataclass(frozen=True, slots=True)
class Question:
    """One user's message, asked in a new conversation and answered greedily."""

    parts: list[dict[str, str]]
    """In order, each `{"text": TEXT}` or `{"image": FILE}`."""
    max_tokens: int

    @property
    def images(self) -> list[str]:
        """The files of all images."""
        return [part["image"] for part in self.parts if "image" in part]

    @property
    def text(self) -> str:
        """All text."""
        return "".join(part.get("text", "") for part in self.parts)


@dataclass(frozen=True, slots=True)
class Reply:
    """What was said, and when each part of it was known."""

    tokens: list[int]
    """Stop token left out."""
    events: list[tuple[int, float]]
    """Tokens known so far, and seconds since the question was read; the first one is the first
    token.  Making pixels, the tower and the prefill lie before it."""
    rounds: int
    """Target forwards after the prefill."""
    process_bytes: int
    """Peak memory of the process."""
    device_bytes: int
    """The accelerator's own counter; 0 on a CPU."""

    @property
    def first_token_seconds(self) -> float:
        """From the question to the first token."""
        return self.events[0][1]

    @property
    def timed_tokens(self) -> int:
        """Tokens that came after the first event."""
        return self.events[-1][0] - self.events[0][0]

    @property
    def decode_seconds(self) -> float:
        """From the first event to the last."""
        return self.events[-1][1] - self.events[0][1]

    @property
    def tokens_per_second(self) -> float | None:
        """Of the tokens after the first event; None where there was only one."""
        return self.timed_tokens / self.decode_seconds if self.timed_tokens else None

    @property
    def peak_bytes(self) -> int:
        """On the accelerator, else of the process."""
        return self.device_bytes or self.process_bytes


def encode(message: Setup | Question | Reply) -> str:
    """One line, its end included."""
    return json.dumps(asdict(message)) + "\n"


def read_reply(value: dict[str, Any]) -> Reply:
    """The reply that a worker told; raises ValueError for one in which nothing was said."""
    reply = Reply(**value)
    if not reply.events:
        raise ValueError("it answered without a token")
    return reply


def one_line(lines: Sequence[str]) -> str:
    """The last line that says something, shortened to what fits a table."""
    said = [" ".join(line.split()) for line in lines if line.strip()]
    return said[-1][:200] if said else ""
