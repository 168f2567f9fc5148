"""Errors that a client gets, as OpenAI's error object."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class ApiError(Exception):
    """A refused request or a failed answer; the message holds no path of this machine."""

    status: int
    message: str
    param: str | None = None
    """The field of the request that was wrong, such as 'messages[0].content'."""
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        """The reply: OpenAI's error object."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        fields = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": fields}
