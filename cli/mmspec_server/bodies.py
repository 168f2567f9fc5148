"""Reads the body of a request within limits of size and time."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from mmspec_server.errors import ApiError
from mmspec_server.settings import Settings


async def read_body(request: Request, settings: Settings) -> bytes:
    """The body of a JSON request; raises ApiError before it holds more than the limit."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, f"Content-Type is {kind[:60]!r}: it must be application/json")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > settings.body_bytes:
        raise _too_large(settings)
    try:
        async with asyncio.timeout(settings.body_seconds):
            return await _received(request, settings)
    except TimeoutError as error:
        reason = f"the body did not arrive within {settings.body_seconds:g} seconds"
        raise ApiError(408, reason, headers={"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise ApiError(400, "the client left before its body had arrived") from error


async def _received(request: Request, settings: Settings) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > settings.body_bytes:
            raise _too_large(settings)
    return bytes(body)


def _too_large(settings: Settings) -> ApiError:
    reason = f"the body is larger than {settings.body_bytes} bytes: send fewer or smaller images"
    return ApiError(413, reason, code="body_too_large", headers={"Connection": "close"})
