"""The addresses of the server."""

from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from mmspec_server.access import Guard
from mmspec_server.answers import Prompt
from mmspec_server.bodies import read_body
from mmspec_server.chat_request import ChatRequest, read_chat_request
from mmspec_server.completions import Completion
from mmspec_server.endpoint import guarded, http_error
from mmspec_server.fields import Fields, read_json
from mmspec_server.messages import read_messages
from mmspec_server.metrics import Counted
from mmspec_server.page import page_routes
from mmspec_server.responses import ResponseReply
from mmspec_server.responses_request import read_input, read_responses_request
from mmspec_server.service import Service
from mmspec_server.streams import EventStream, Reply, streamed, whole


def create_app(service: Service) -> Starlette:
    """The ASGI application of a service."""
    addresses = Addresses(service)
    routes = [
        *page_routes(),
        Route("/health", guarded(addresses.health)),
        Route("/metrics", guarded(addresses.metrics)),
        Route("/v1/models", guarded(addresses.models)),
        Route("/v1/models/{id:path}", guarded(addresses.model)),
        Route("/v1/chat/completions", guarded(addresses.chat), methods=["POST"]),
        Route("/v1/responses", guarded(addresses.responses), methods=["POST"]),
    ]
    middleware = [
        Middleware(Counted, metrics=service.metrics),
        Middleware(Guard, access=service.access),
    ]
    handlers = {HTTPException: http_error}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


class Addresses:
    """The endpoints, which share a service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def health(self, _: Request) -> Response:
        """`/health`: the server can answer."""
        return JSONResponse({"status": "ok", "model": self._service.model})

    async def metrics(self, _: Request) -> Response:
        """`/metrics`: counts in Prometheus' text format."""
        service = self._service
        text = service.metrics.text(
            jobs=service.queue.jobs,
            cached_conversations=len(service.cache),
            cache_bytes=service.cache.bytes,
        )
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

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
            fields = await self._fields(request)
            asked = read_chat_request(fields, service.options)
            prompt = await service.read_prompt(partial(read_messages, fields.blocks("messages")))
        reply = Completion(service.model, asked.include_usage, asked.details)
        return await self._replied(request, asked, prompt, reply)

    async def responses(self, request: Request) -> Response:
        """`/v1/responses`."""
        service = self._service
        with service.queue.admission():
            fields = await self._fields(request)
            asked = read_responses_request(fields, service.options)
            prompt = await service.read_prompt(partial(read_input, fields))
        return await self._replied(request, asked, prompt, ResponseReply(service.model, asked))

    async def _fields(self, request: Request) -> Fields:
        service = self._service
        fields = read_json(await read_body(request, service.settings))
        service.check_model(fields.text("model", service.model))
        return fields

    async def _replied(
        self, request: Request, asked: ChatRequest, prompt: Prompt, reply: Reply
    ) -> Response:
        job = self._service.submit(prompt, asked)
        if asked.stream:
            silence = self._service.settings.keep_alive_seconds
            return EventStream(job, streamed(job, reply, silence))
        return JSONResponse(await whole(request, job, reply))
