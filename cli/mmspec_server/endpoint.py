"""Turns whatever goes wrong in a request into OpenAI's error object."""

import logging
import traceback
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mmspec.ground.errors import ContextError, ImageError, MmspecError, UsageError
from mmspec_server.errors import ApiError

Endpoint = Callable[[Request], Awaitable[Response]]

log = logging.getLogger("mmspec.server")


def guarded(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with a JSON reply for every exception."""

    async def reply(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:  # noqa: BLE001 - a client gets a reply, whatever happens
            return refused(api_error(error))

    return reply


def refused(error: ApiError) -> Response:
    """The reply of an error."""
    return JSONResponse(error.body, error.status, headers=dict(error.headers))


def api_error(error: Exception) -> ApiError:
    """The error for the client; logs what is the server's fault, by type and place alone.

    Messages of other exceptions may hold prompts, and those about checkpoints hold paths.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UsageError | ImageError | ContextError):
        return ApiError(400, str(error))
    log.error("%s at %s", type(error).__name__, _place(error))
    if isinstance(error, MmspecError):
        return ApiError(500, "the model's files cannot serve this request: see the server's log")
    return ApiError(500, "the server failed: see its log")


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"


async def http_error(_: Request, error: Exception) -> Response:
    """The reply for a path or method that there is not."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = "there is no such address: see /v1/models" if status == 404 else "method not allowed"
    return refused(ApiError(status, message))
