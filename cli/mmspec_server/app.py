"""The addresses of the server, and what their requests share: models, options, limits, queue."""

import asyncio
import mimetypes
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from secrets import randbits
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from mmspec import Answer, Engine, Options, Piece, Prefilled
from mmspec.chat.memory import Memory
from mmspec.checkpoints.cards import bundled_note
from mmspec.prompt.tool_calls import CallForm, call_form
from mmspec_server.chat_request import ChatRequest, read_chat, read_responses, read_text
from mmspec_server.completions import Completion, ResponseReply, TextCompletion
from mmspec_server.decoding import ConversationCache, DecodingQueue, Event, answer
from mmspec_server.endpoint import ApiError, Fields, failure, read_body, read_json
from mmspec_server.grammar import Grammars
from mmspec_server.images import ImageReader
from mmspec_server.middleware import PAGE, Guard, Metrics
from mmspec_server.prompts import RequestPrompt, prepare, prepare_text, read_conversation
from mmspec_server.replies import EventStream, Reply, whole
from mmspec_server.settings import ServerSettings

FOLDER = Path(__file__).parent / "page"

HEADERS = {
    # The page may use its own files, ask this server, and show the user's pictures.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass
class Service:
    """Answers questions with one pair of models: the endpoints and what they share."""

    engine: Engine
    options: Options
    """Used where a request names none."""
    settings: ServerSettings
    queue: DecodingQueue
    """The engine was loaded on its thread."""
    has_seed: bool = False
    """True if requests that name no seed use that of `options`; else each draws its own."""

    def __post_init__(self) -> None:
        settings = self.settings
        self.reader = ImageReader(settings)
        self.engine.target.tokenizer.keeps_texts = not settings.isolate
        self.engine.target.template.require_thinking(settings.thinking)
        if not settings.isolate:
            self.engine.memory = Memory(self.engine.target.model.config.text.vocab_size)
        count = 0 if settings.isolate else settings.conversations
        self.cache = ConversationCache(self.engine, count, settings.cache * 2**20)
        self.metrics = Metrics()
        self.created = int(time.time())
        self._grammars = Grammars(self.engine.target)
        # Few threads, for each keeps the memory that its images took.
        self._readers = ThreadPoolExecutor(4, "reading")

    @property
    def model(self) -> str:
        """The target's name in the API: of a directory its last part, because paths are private."""
        name = self.engine.target.name
        return Path(name).resolve().name if Path(name).is_dir() else name

    async def health(self, _: Request) -> Response:
        """`/health`: the server can answer."""
        return JSONResponse({"status": "ok", "model": self.model})

    async def show_metrics(self, _: Request) -> Response:
        """`/metrics`: counts in Prometheus' text format."""
        caches = {"cached_conversations": len(self.cache), "cache_bytes": self.cache.bytes}
        text = self.metrics.text(jobs=self.queue.jobs, **caches)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def show_models(self, request: Request) -> Response:
        """`/v1/models` and `/v1/models/{id}`: the one model that is loaded."""
        path = request.path_params
        self._check_model(path.get("id", self.model))
        note = bundled_note(self.engine.target.name)  # on what the bundled one knows
        card = {"id": self.model, "object": "model", "created": self.created, "owned_by": "mmspec"}
        card |= {"mmspec": {"note": note}} if note else {}
        return JSONResponse(card if path else {"object": "list", "data": [card]})

    def answer_route(
        self, address: str, read: Callable[[Fields, Options], ChatRequest], reply: type[Reply]
    ) -> Route:
        """The route of an address: how its requests are read, and its replies."""

        async def endpoint(http_request: Request) -> Response:
            with self.queue.admission():
                most = int(self.settings.max_body * 2**20)
                body = await read_body(http_request, most, self.settings.body_seconds)
                fields, defaults = read_json(body), self.options
                self._check_model(fields.text("model", self.model))
                if not self.has_seed:
                    defaults = replace(defaults, seed=randbits(32))  # any client's numbers hold it
                request = read(fields, defaults)
                loop = asyncio.get_running_loop()
                request, prompt = await loop.run_in_executor(self._readers, self._prepare, request)
            form = self._call_form if request.tools else None
            writer = reply(self.model, request, self.engine.target, form)
            job = self.queue.submit(self._events(request, prompt))
            if request.stream:
                return EventStream(writer, job, self.settings.silence)
            return JSONResponse(await whole(http_request, writer, job))

        return Route(address, endpoint, methods=["POST"])

    def _check_model(self, name: str) -> None:
        """Raise ApiError for the name of a model that is not loaded."""
        if name != self.model:
            reason = f"the model {name[:60]!r} is not loaded: use {self.model!r}"
            raise ApiError(404, reason, "model", "model_not_found")

    def _prepare(self, request: ChatRequest) -> tuple[ChatRequest, RequestPrompt]:
        """A request with its constraint, and its prompt."""
        constraint, tools = None, request.required_tools
        if request.form:
            constraint = self._grammars.json(request.form.values, request.form.path)
        elif tools:
            constraint = self._grammars.calls(self._call_form, tools, request.calls)
        request = replace(request, options=replace(request.options, constraint=constraint))
        if request.text is not None:
            return request, prepare_text(self.engine, request.text)
        config = self.engine.target.model.config
        positions = config.text.max_position_embeddings
        if (count := len(request.messages)) > positions:
            reason = f"{request.param}: {count} of them; the model has {positions} positions"
            raise ApiError(400, reason, request.param, "context_length_exceeded")
        # As many images as the limit and the context allow.
        most = min(self.settings.max_images, positions // max(config.image_tokens, 1))
        calls = self._call_form if request.speaks_of_tools else None
        messages = read_conversation(request, self.reader, most, calls, self.settings.system)
        if messages.thinking is None:
            messages.thinking = self.settings.thinking
        return request, prepare(self.engine, messages, request.param)

    @cached_property
    def _call_form(self) -> CallForm:
        """How the model writes calls; raises ApiError for one without tools."""
        form = call_form(self.engine.target.template)
        if form is None:
            reason = f"tools: the chat template of {self.model} writes none that can be read"
            raise ApiError(400, reason, "tools")
        return form

    def _events(self, request: ChatRequest, prompt: RequestPrompt) -> Generator[Event | None]:
        """The answer's events, on the decoding thread."""
        try:
            for event in answer(self.cache, prompt, request.options, plain=request.plain):
                if isinstance(event, Answer):
                    self.metrics.answer(event.statistics)
                # An event wakes the replies' thread, which takes time from this one.
                is_empty = isinstance(event, Piece) and not (event.text or event.likelihoods)
                is_unwanted = isinstance(event, Prefilled) and not request.details
                yield None if is_empty or is_unwanted else event
        finally:
            if self.settings.isolate:
                self.engine.forget()


class PageFiles(StaticFiles):
    """The page's files, sent with HEADERS."""

    def file_response(self, *args: Any, **fields: Any) -> Response:
        """The reply with a file, or without it to a browser that has it."""
        response = super().file_response(*args, **fields)
        response.headers.update(HEADERS)
        return response


def create_app(service: Service) -> Starlette:
    """The ASGI application of a service."""
    mimetypes.add_type("text/javascript", ".js")  # whatever this machine's own table says
    routes: list[Route | Mount] = [
        Route("/", lambda _: FileResponse(FOLDER / "index.html", headers=HEADERS)),
        Mount(f"{PAGE}samples", PageFiles(packages=[("mmspec_models", "samples")])),
        Mount(PAGE, PageFiles(directory=FOLDER)),
        Route("/health", service.health),
        Route("/metrics", service.show_metrics),
        Route("/v1/models", service.show_models),
        Route("/v1/models/{id:path}", service.show_models),
        service.answer_route("/v1/chat/completions", read_chat, Completion),
        service.answer_route("/v1/completions", read_text, TextCompletion),
        service.answer_route("/v1/responses", read_responses, ResponseReply),
    ]
    # A preflight's answer repeats the headers that were asked for.
    allowed: Any = {"allow_methods": ["GET", "POST"], "allow_headers": ["*"]}
    middleware = [
        Middleware(service.metrics.counter, addresses=[route.path for route in routes]),
        Middleware(CORSMiddleware, allow_origins=service.settings.allow_origin, **allowed),
        Middleware(Guard, settings=service.settings),
    ]
    handlers = {HTTPException: failure}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)
