"""HTTP of every endpoint: JSON bodies within limits of size and time, errors as OpenAI's object."""

import asyncio
import logging
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from mmspec.ground import errors
from mmspec.ground.json_file import JsonObject, Length
from mmspec.ground.json_reader import MismatchError, abbreviate, parse_json

READ_FACTOR = 4
"""Multiple of the limit that is read of too large a body, so that its sender sees the reply."""

NOWHERE = (
    "there is no such address: POST /v1/chat/completions, /v1/completions or /v1/responses, or GET "
    "/v1/models, /metrics, /health or /"
)

log = logging.getLogger("mmspec.server")


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


async def failure(_: Request | None, error: Exception) -> Response:
    """The reply to a request that raised an error."""
    report = api_error(error)
    return JSONResponse(report.body, report.status, headers=dict(report.headers))


def api_error(error: Exception) -> ApiError:
    """The error for the client; logs type and place alone: messages may hold prompts or paths."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):  # for a path or method that there is not
        headers = error.headers or {}
        takes = f"this address takes {headers.get('Allow', 'GET')}"
        reason = NOWHERE if error.status_code == 404 else takes
        return ApiError(error.status_code, reason, headers=headers)
    if isinstance(error, errors.UsageError | errors.ImageError | errors.ContextError):
        return ApiError(400, str(error))
    place = traceback.extract_tb(error.__traceback__)[-1]
    name = error.place if isinstance(error, errors.PluginError) else type(error).__name__
    log.error("%s at %s:%s", name, place.filename, place.lineno)
    if isinstance(error, RecursionError):
        return ApiError(400, "the request is nested too deeply: nest its tools or schema less")
    if isinstance(error, errors.DraftError | errors.BackendError):  # of tokens or memory, no path
        return ApiError(500, str(error))
    if isinstance(error, errors.MmspecError):
        reason = "the model's files or a plug-in cannot serve this request: see the server's log"
        return ApiError(500, reason)
    return ApiError(500, "the server failed: see its log")


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """The body of a JSON request; raises ApiError, and never holds more than `limit` bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, f"Content-Type is {kind[:60]!r}: it must be application/json")
    try:
        size, length, body = int(request.headers.get("content-length", 0)), 0, bytearray()
        async with asyncio.timeout(seconds):
            if size <= READ_FACTOR * limit:
                async for part in request.stream():
                    length += len(part)
                    size = max(size, length)
                    if length > READ_FACTOR * limit:
                        break
                    body += part if size <= limit else b""
    except TimeoutError as error:
        reason = f"the body did not arrive within {seconds:g} seconds"
        raise ApiError(408, reason, headers={"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise ApiError(400, "the client left before its body had arrived") from error
    if size <= limit:
        return bytes(body)
    reason = f"the body is larger than {limit} bytes: send fewer or smaller images"
    raise ApiError(413, reason, code="body_too_large", headers={"Connection": "close"})


def read_json(body: bytes) -> "Fields":
    """The JSON object in a request's body; raises ApiError for anything else."""
    try:
        values = parse_json(body)
    except ValueError as error:
        raise ApiError(400, f"the body is not valid JSON: {error}", code="invalid_json") from error
    if not isinstance(values, dict):
        raise ApiError(400, f"the body must be a JSON object, not {abbreviate(values)}")
    return Fields(values)


@dataclass(frozen=True)
class Fields(JsonObject):
    """A JSON object of a request, at `path`, such as 'messages[0].'; its methods raise ApiError.

    A field that nobody reads is ignored.
    """

    values: Mapping[str, Any]
    path: str = ""

    def wrong(self, error: MismatchError) -> ApiError:
        """The error for the client, which names the field."""
        name = self.path + error.place.removeprefix(".")
        reason = f"{name} is {abbreviate(error.value)}: it must be {error.requirement}"
        return ApiError(400, reason, name, "invalid_value")

    def read(self, key: str, kind: Any, default: Any) -> Any:
        """The value of `key`; a `default` that is a number may lie beyond a request's limits."""
        is_missing = isinstance(default, int | float) and self.get(key) is None
        return default if is_missing else super().read(key, kind, default)

    def refuse(self, advice: Mapping[str, str]) -> None:
        """Raise ApiError if a field is set; advice: for each such name, what it must be."""
        for name, text in advice.items():
            if self.get(name):
                raise self.error(name, text)

    def text(self, key: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        return str(self.read(key, str, default))

    def block(self, key: str) -> "Fields":
        """The object at `key`; empty if it is missing."""
        return Fields(self.read(key, dict[str, Any], {}), f"{self.path}{key}.")

    def blocks(self, key: str) -> "Sequence[Fields]":
        """The objects of the list at `key`, which must not be empty."""
        entries = self.read(key, Annotated[list[dict[str, Any]], Length(1, 100_000)], [])
        return [Fields(each, f"{self.path}{key}[{index}].") for index, each in enumerate(entries)]
