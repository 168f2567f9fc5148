"""What all requests share: the models, their options and limits, and the queue."""

import asyncio
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import Prefilled
from mmspec.checkpoints.cards import load_cards
from mmspec_server.access import Access
from mmspec_server.answers import Event, Finished, Prompt, answer, prepare
from mmspec_server.chat_request import ChatRequest
from mmspec_server.conversation_cache import ConversationCache
from mmspec_server.decoding_queue import DecodingQueue, Job
from mmspec_server.errors import ApiError
from mmspec_server.images import ImageReader
from mmspec_server.messages import Dialogue
from mmspec_server.metrics import Metrics
from mmspec_server.settings import Settings

READ_TOGETHER = 4
"""Requests whose messages and images are read at the same time; others hold only their bodies."""


class Service:
    """Answers questions with one pair of models."""

    def __init__(
        self,
        engine: Engine,
        options: Options,
        settings: Settings,
        queue: DecodingQueue,
        reader: ImageReader,
        access: Access,
    ) -> None:
        """options: used where a request names none.  queue: on its thread `engine` was loaded."""
        self.engine = engine
        self.options = options
        self.settings = settings
        self.queue = queue
        self.access = access
        self.cache = ConversationCache(engine, settings.conversations, settings.cache_bytes)
        self.metrics = Metrics()
        self.created = int(time.time())
        self._reader = reader
        self._reading = asyncio.Semaphore(READ_TOGETHER)

    @property
    def model(self) -> str:
        """The target's name in the API: of a directory its last part, because paths are private."""
        name = self.engine.target.name
        return Path(name).name if Path(name).is_dir() else name

    def card(self) -> dict[str, Any]:
        """The model as `/v1/models` lists it; of the bundled one with what it knows."""
        known = load_cards().get(self.engine.target.name)
        return {
            **({"mmspec": {"note": known.note}} if known and known.bundled else {}),
            "id": self.model,
            "object": "model",
            "created": self.created,
            "owned_by": "mmspec",
        }

    def check_model(self, name: str) -> None:
        """Raise ApiError for the name of a model that is not loaded."""
        if name != self.model:
            reason = f"the model {name[:60]!r} is not loaded: use {self.model!r}"
            raise ApiError(404, reason, "model", "model_not_found")

    async def read_prompt(self, read: Callable[[ImageReader, int], Dialogue]) -> Prompt:
        """The prompt of a request, read with its images and tokens on another thread.

        read: function that reads a dialogue of at most so many images.
        """
        async with self._reading:
            return await asyncio.to_thread(self._prompt, read)

    def _prompt(self, read: Callable[[ImageReader, int], Dialogue]) -> Prompt:
        return prepare(self.engine, read(self._reader, self._most_images))

    @property
    def _most_images(self) -> int:
        """Images that one request may have: those that the limit and the model's context allow."""
        config = self.engine.target.model.config
        fitting = config.text.max_position_embeddings // max(config.image_tokens, 1)
        return min(self.settings.images, fitting)

    def submit(self, prompt: Prompt, request: ChatRequest) -> Job[Event]:
        """Queue the answer to a prompt; raises ApiError if too many requests wait."""

        def work() -> Generator[Event | None]:
            events = answer(self.cache, prompt, request.options, request.stops, plain=request.plain)
            for event in events:
                if isinstance(event, Finished):
                    self.metrics.answer(event.statistics)
                # An event wakes the thread of the replies, which takes time from this one.
                yield event if request.details or not isinstance(event, Prefilled) else None

        return self.queue.submit(work)
