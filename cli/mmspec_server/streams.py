"""Passes a job's events to a client; a client that leaves ends its job."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from mmspec.chat.session import Prefilled
from mmspec_server.answers import Event, Finished, Text
from mmspec_server.decoding import Job
from mmspec_server.endpoint import api_error
from mmspec_server.replies import Completion, ResponseReply

ReplyWriter = Completion | ResponseReply

KEEP_ALIVE = ": waiting\n\n"
"""A comment, which clients of event streams ignore."""


class EventStream(StreamingResponse):
    """Server-sent events of one job."""

    def __init__(self, job: Job[Event], events: AsyncIterator[str]) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._job, self._events = job, events

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send the events; cancels the job when nobody reads them any more.

        Nothing is sent before the first event: it would take time from the thread that computes it.
        """
        with _cancelled_at_end(self._job, receive):
            first = await anext(self._events, "")
            self.body_iterator = _with(first, self._events)
            await self.stream_response(send)


async def _with(first: str, others: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for text in others:
        yield text


async def streamed(
    job: Job[Event], reply: ReplyWriter, silence: float, ahead: int = 0
) -> AsyncIterator[str]:
    """The texts to send: those of the events as they come, and comments where none comes.

    The events before the first text come with it.  ahead: answers for which this one waits.
    """
    start = reply.start()
    try:
        if ahead:
            yield start + (reply.waiting(ahead) or KEEP_ALIVE)
            start = ""
        async for event in job.events(silence):
            yield start + _event_text(event, reply)
            start = ""
    except Exception as error:  # noqa: BLE001 - the status has been sent: the stream says it
        yield start + reply.failure(api_error(error))


def _event_text(event: Event | None, reply: ReplyWriter) -> str:
    match event:
        case None:
            return KEEP_ALIVE
        case Prefilled():
            return reply.progress(event)
        case Text():
            return reply.delta(event)
        case Finished():
            return reply.end(event)


async def whole(request: Request, job: Job[Event], reply: ReplyWriter) -> dict[str, Any]:
    """The object of a complete answer; empty if the client has left."""
    texts: list[Text] = []
    finished = None
    with _cancelled_at_end(job, request.receive):
        async for event in job.events():
            if isinstance(event, Text):
                texts.append(event)
            elif isinstance(event, Finished):
                finished = event
    return reply.whole(Text.joined(texts), finished) if finished else {}


@contextmanager
def _cancelled_at_end(job: Job[Event], receive: Receive) -> Iterator[None]:
    """Context of a reply: the job is cancelled when it ends, or when the client leaves."""
    watcher = asyncio.create_task(_cancel_when_gone(job, receive))
    try:
        yield
    finally:
        watcher.cancel()
        job.cancel()


async def _cancel_when_gone(job: Job[Event], receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    job.cancel()
