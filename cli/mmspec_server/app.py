"""The addresses of the server."""

from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mmspec_server.access import Guard
from mmspec_server.answers import Event, Finished, Text
from mmspec_server.bodies import read_body
from mmspec_server.chat_request import read_chat_request
from mmspec_server.completions import DONE, KEEP_ALIVE, Completion, failure
from mmspec_server.decoding_queue import Job
from mmspec_server.endpoint import api_error, guarded, http_error
from mmspec_server.fields import read_json
from mmspec_server.service import Service
from mmspec_server.streams import EventStream, collected


def create_app(service: Service) -> Starlette:
    """The ASGI application of a service."""
    addresses = Addresses(service)
    routes = [
        Route("/health", guarded(addresses.health)),
        Route("/v1/models", guarded(addresses.models)),
        Route("/v1/models/{id:path}", guarded(addresses.model)),
        Route("/v1/chat/completions", guarded(addresses.chat), methods=["POST"]),
    ]
    guard = Middleware(Guard, access=service.access)
    return Starlette(
        routes=routes, middleware=[guard], exception_handlers={HTTPException: http_error}
    )


class Addresses:
    """The endpoints, which share a service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def health(self, _: Request) -> Response:
        """`/health`: the server can answer."""
        return JSONResponse({"status": "ok", "model": self._service.model})

    async def models(self, _: Request) -> Response:
        """`/v1/models`: the one model that is loaded."""
        return JSONResponse({"object": "list", "data": [self._service.card()]})

    async def model(self, request: Request) -> Response:
        """`/v1/models/{id}`."""
        self._service.check_model(request.path_params["id"])
        return JSONResponse(self._service.card())

    async def chat(self, request: Request) -> Response:
        """`/v1/chat/completions`."""
        service = self._service
        with service.queue.admission():
            fields = read_json(await read_body(request, service.settings))
            service.check_model(fields.text("model", service.model))
            asked = read_chat_request(fields, service.options)
            prompt = await service.read_prompt(fields)
        job = service.submit(prompt, asked)
        completion = Completion(service.model, asked.include_usage)
        if asked.stream:
            silence = service.settings.keep_alive_seconds
            return EventStream(job, streamed(job, completion, silence))
        return JSONResponse(await whole(request, job, completion))


async def whole(request: Request, job: Job[Event], completion: Completion) -> dict[str, object]:
    """The object of a whole answer."""
    text, finished = "", None
    async for event in collected(request, job):
        if isinstance(event, Text):
            text += event.text
        elif isinstance(event, Finished):
            finished = event
    if finished is None:
        return {}  # the client has left
    return completion.whole(text, finished.reason, finished.statistics)


async def streamed(job: Job[Event], completion: Completion, silence: float) -> AsyncIterator[str]:
    """The events of an answer as they come; comments where nothing else comes."""
    yield completion.chunk({"role": "assistant", "content": ""})
    try:
        async for event in job.events(silence):
            if event is None:
                yield KEEP_ALIVE
            elif isinstance(event, Text):
                yield completion.chunk({"content": event.text})
            elif isinstance(event, Finished):
                yield completion.chunk({}, event.reason)
                if completion.include_usage:
                    yield completion.usage_chunk(event.statistics)
    except Exception as error:  # noqa: BLE001 - the status has been sent: the stream says it
        yield failure(api_error(error))
    yield DONE
