"""Reads the body of a request within limits of size and time."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from mmspec_server.errors import ApiError
from mmspec_server.settings import Settings

DISCARDED = 4
"""Times the limit: what is read of a body that is too large, so that its sender sees the reply."""


async def read_body(request: Request, settings: Settings) -> bytes:
    """The body of a JSON request; raises ApiError, and never holds more than the limit."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, f"Content-Type is {kind[:60]!r}: it must be application/json")
    try:
        async with asyncio.timeout(settings.body_seconds):
            return await _received(request, settings.body_bytes)
    except TimeoutError as error:
        reason = f"the body did not arrive within {settings.body_seconds:g} seconds"
        raise ApiError(408, reason, headers={"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise ApiError(400, "the client left before its body had arrived") from error


async def _received(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    size = int(declared) if declared.isdigit() else 0
    body, received = bytearray(), 0
    if size > DISCARDED * limit:
        raise _too_large(limit)
    async for part in request.stream():
        received += len(part)
        if received > DISCARDED * limit:
            raise _too_large(limit)
        body += part if max(received, size) <= limit else b""
    if received > limit:
        raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> ApiError:
    reason = f"the body is larger than {limit} bytes: send fewer or smaller images"
    return ApiError(413, reason, code="body_too_large", headers={"Connection": "close"})
