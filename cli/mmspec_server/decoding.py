"""The decoding thread: one answer at a time, in the order of arrival, and the caches it keeps."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from math import ceil
from threading import Event as Flag
from time import perf_counter
from typing import Any, Generic, TypeVar

from mmspec.chat.chat import Chat
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.prompt.chunks import Chunk
from mmspec.prompt.conversation import Conversation
from mmspec_server.endpoint import ApiError

T = TypeVar("T")

WEIGHT = 0.3
"""Share of the last job in the mean duration of jobs."""

HANDOVER = 0.1
"""Most seconds that a job waits until its first event has been sent."""


class Job(Generic[T]):
    """The events of a generator on the decoding thread, for the event loop; None is no event."""

    def __init__(self, work: Generator[T | None], thread: ThreadPoolExecutor) -> None:
        """Called on the event loop by `DecodingQueue.submit`; waits for its turn on `thread`."""
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[T | BaseException | None] = asyncio.Queue()
        self._cancelled = Flag()
        self._handover = Flag()
        self._end: BaseException | None = None
        self.seconds = 0.0
        self.future: Future[None] = thread.submit(self._run)

    def cancel(self, error: ApiError | None = None) -> None:
        """Stop the generator after its next event, or before it starts; then raise `error`."""
        self._end = self._end or error
        self._cancelled.set()
        if self.future.cancel():
            self._post(self._end)

    def _run(self) -> None:
        started = perf_counter()
        try:
            self._produce()
        except BaseException as error:  # noqa: BLE001 - raised where the events are awaited
            self._end = error
        self.seconds = perf_counter() - started
        self._post(self._end)

    def _produce(self) -> None:
        with closing(self._work) as events:
            for event in events:
                if event is not None:
                    self._post(event)
                    self._hand_over()
                if self._cancelled.is_set():
                    return

    def _hand_over(self) -> None:
        """Let the event loop send the first event before the next rounds, which would delay it."""
        self._handover.wait(HANDOVER)
        self._handover.set()

    def _post(self, event: T | BaseException | None) -> None:
        self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def events(self, silence: float | None = None) -> AsyncIterator[T | None]:
        """The events as they come; None whenever `silence` seconds have passed without one.

        Raises what the generator raised, or the error that it was cancelled with.
        """
        while True:
            try:
                async with asyncio.timeout(silence):
                    event = await self._events.get()
            except TimeoutError:
                yield None
                continue
            if isinstance(event, BaseException):
                raise event
            if event is None:
                return
            yield event
            self._handover.set()  # awaited again: the event has been sent


class DecodingQueue:
    """Runs jobs one at a time; models are loaded and used on its thread alone."""

    def __init__(self, waiting: int) -> None:
        """waiting: jobs that may wait for the one that runs."""
        self._thread = ThreadPoolExecutor(1, "decoding")
        self._waiting = waiting
        self._jobs: list[Job[Any]] = []
        self._read = 0
        self._seconds = 1.0
        self._closing = False

    @property
    def jobs(self) -> int:
        """Number of jobs that run or wait."""
        for job in self._jobs:
            if job.future.done() and not job.future.cancelled():
                self._seconds += WEIGHT * (job.seconds - self._seconds)
        self._jobs = [job for job in self._jobs if not job.future.done()]
        return len(self._jobs)

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the thread and wait for its result."""
        return self._thread.submit(function).result()

    @contextmanager
    def admission(self) -> Iterator[None]:
        """Context in which a request is read; raises ApiError if as many are read as may wait."""
        self._check_room()
        if self._read > self._waiting:
            raise self._full()
        self._read += 1
        try:
            yield
        finally:
            self._read -= 1

    def submit(self, work: Generator[T | None]) -> Job[T]:
        """Let a generator run after those that came before; raises ApiError if too many wait."""
        self._check_room()
        job = Job(work, self._thread)
        self._jobs.append(job)
        return job

    def _check_room(self) -> None:
        if self._closing:
            raise _closing_error()
        if self.jobs > self._waiting:
            raise self._full()

    def _full(self) -> ApiError:
        """The error for a request too many; tells when half of those before it should be done."""
        seconds = max(1, ceil(self._seconds * self._waiting / 2))
        reason = f"{self._waiting} requests wait already: try again in {seconds} s"
        return ApiError(429, reason, code="queue_full", headers={"Retry-After": str(seconds)})

    def drain(self, grace: float) -> None:
        """Accept and start no more jobs, and cut the one that runs after `grace` seconds."""
        self._closing = True
        for job in self._jobs:
            if job.future.running():
                asyncio.get_running_loop().call_later(grace, job.cancel, _closing_error())
            else:
                job.cancel(_closing_error())

    def close(self) -> None:
        """End the thread after its current job."""
        self._thread.shutdown(cancel_futures=True)


def _closing_error() -> ApiError:
    return ApiError(503, "the server is shutting down", code="shutting_down")


@dataclass(frozen=True, slots=True, eq=False)
class _CachedChat:
    chat: Chat
    prompt: Sequence[Chunk]
    """What its last answer was to."""

    def serves(self, chunks: Sequence[Chunk]) -> bool:
        """True if a prompt shares most of the chat's tokens, or is the one answered last."""
        shared = self.chat.cached_tokens(chunks)
        return shared > 0 and (2 * shared >= self.chat.held_tokens or self.prompt == chunks)


class ConversationCache:
    """Chats in the order of their use; used on the decoding thread alone.

    Prompts are compared by tokens and image content, so a stateless request costs only what it does
    not share. Answers do not depend on what is cached.
    """

    def __init__(self, engine: Engine, count: int, size: int) -> None:
        """count: the most chats that are kept.  size: the most bytes that their caches take."""
        self._engine = engine
        self._count = count
        self._size = size
        self._chats: list[_CachedChat] = []
        self.bytes = 0
        """Bytes of all caches that are kept."""

    def __len__(self) -> int:
        return len(self._chats)

    def open(self, options: Options, before: Conversation, chunks: Sequence[Chunk]) -> Chat:
        """A chat in which the turns `before` are over, from the cache if one begins alike.

        chunks: the whole prompt. Give the chat back with `keep`, also after an error.
        """
        cached = self._alike(options, chunks)
        if cached is None:
            return self._engine.chat(options, before)
        self._chats.remove(cached)
        chat = cached.chat
        chat.change(options)
        chat.conversation = before
        return chat

    def keep(self, chat: Chat, prompt: Sequence[Chunk]) -> None:
        """Keep a chat and the prompt of its last answer; the least recently used ones leave."""
        if chat.held_tokens:
            self._chats.append(_CachedChat(chat, prompt))
        sizes = [cached.chat.cache_bytes for cached in self._chats]
        while len(sizes) > self._count or sum(sizes) > self._size:
            del self._chats[0], sizes[0]
        self.bytes = sum(sizes)

    def _alike(self, options: Options, chunks: Sequence[Chunk]) -> _CachedChat | None:
        """Of the chats that serve a prompt the one that shares most of it."""
        alike = [cached for cached in self._chats if _same_options(cached.chat.options, options)]
        serving = [cached for cached in alike if cached.serves(chunks)]
        return max(serving, key=lambda cached: cached.chat.cached_tokens(chunks), default=None)


def _same_options(first: Options, second: Options) -> bool:
    """True if the caches of one serve the other: both sample alike."""
    own = ("logprobs", "seed", "max_new_tokens", "stop_strings", "constraint")
    return replace(first, **{name: getattr(second, name) for name in own}) == second
