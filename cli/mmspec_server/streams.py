"""Passes a job's events to a client; a client that leaves ends its job."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from mmspec_server.decoding_queue import Job

T = TypeVar("T")


class EventStream(StreamingResponse):
    """Server-sent events of one job."""

    def __init__(self, job: Job[Any], events: AsyncIterator[str]) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._job = job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; cancels the job when nobody reads them any more."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._job.cancel()


async def collected(request: Request, job: Job[T]) -> AsyncIterator[T]:
    """The events of a job whose answer is sent as a whole; fewer if the client leaves."""
    watcher = asyncio.create_task(_cancel_when_gone(request, job))
    try:
        async for event in job.events(None):
            if event is not None:
                yield event
    finally:
        watcher.cancel()
        job.cancel()


async def _cancel_when_gone(request: Request, job: Job[Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.cancel()
