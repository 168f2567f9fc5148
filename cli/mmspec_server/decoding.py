"""The decoding thread: one answer at a time, in the order of arrival, and the caches it keeps."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from math import ceil
from threading import Event as Flag
from time import perf_counter
from typing import TypeVar

from mmspec import Answer, Chat, Engine, Options, Piece, Prefilled
from mmspec.prompt.chunks import Chunk
from mmspec_server.endpoint import ApiError
from mmspec_server.prompts import RequestPrompt

T = TypeVar("T")

PER_REQUEST = ("logprobs", "seed", "max_new_tokens", "stop_strings", "constraint", "repeat_limit")
"""Options that may differ between two requests of which one's caches serve the other."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer waits for `ahead` others."""

    ahead: int


Event = Waiting | Prefilled | Piece | Answer
"""Progress of the queue and of the prompt, then text, then the whole answer."""


class Job:
    """The events of a generator on the decoding thread, for the event loop; None is no event."""

    def __init__(self, work: Generator[Event | None], thread: ThreadPoolExecutor) -> None:
        """Called on the event loop by `DecodingQueue.submit`; waits for its turn on `thread`."""
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()
        self._has_left, self._is_sent = Flag(), Flag()
        self.future: Future[float] = thread.submit(self._run, work)
        """Its result is the seconds that the generator took."""

    def post(self, event: Event | BaseException | None) -> None:
        """Add an event, an error to raise, or the end; on any thread."""
        self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    def _run(self, work: Generator[Event | None]) -> float:
        start, end = perf_counter(), None
        try:
            with closing(work):
                for event in work:
                    if event is not None:
                        self.post(event)
                        self._is_sent.wait(0.1)  # the next rounds would delay the first event
                        self._is_sent.set()
                    if self._has_left.is_set():
                        break
        except BaseException as error:  # noqa: BLE001 - raised where the events are awaited
            end = error
        self.post(end)
        return perf_counter() - start

    async def events(self, silence: float) -> AsyncIterator[Event | None]:
        """The events, or the generator's error; None after `silence` seconds without either."""
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
            if not isinstance(event, Waiting):
                self._is_sent.set()  # awaited again: the event has been sent

    def leave(self) -> None:
        """Stop the generator after its next event, or before it starts: nobody reads more."""
        self._has_left.set()
        self.future.cancel()


class DecodingQueue:
    """Runs jobs one at a time; models are loaded and used on its thread alone."""

    def __init__(self, waiting: int) -> None:
        """waiting: jobs that may wait for the one that runs."""
        self._thread = ThreadPoolExecutor(1, "decoding")
        self._most_waiting = waiting
        self._jobs: list[Job] = []
        self._admissions = 0
        self._seconds = 1.0  # that a job takes: a mean of which the last job is 0.3
        self._is_closing = False

    @property
    def jobs(self) -> int:
        """Number of jobs that run or wait."""
        for job in self._jobs:
            if job.future.done() and not (job.future.cancelled() or job.future.exception()):
                self._seconds += 0.3 * (job.future.result() - self._seconds)
        self._jobs = [job for job in self._jobs if not job.future.done()]
        return len(self._jobs)

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the thread and wait for its result."""
        return self._thread.submit(function).result()

    @contextmanager
    def admission(self) -> Iterator[None]:
        """Context in which a request is read, which takes the place of one that waits.

        Raises ApiError while the server closes, and if too many requests wait.
        """
        if self._is_closing:
            raise _closing_error()
        if self.jobs + self._admissions > self._most_waiting:
            seconds = max(1, ceil(self._seconds * self._most_waiting / 2))  # for half of them
            reason = f"{self._most_waiting} requests wait already: try again in {seconds} s"
            raise ApiError(429, reason, code="queue_full", headers={"Retry-After": str(seconds)})
        self._admissions += 1
        try:
            yield
        finally:
            self._admissions -= 1

    def submit(self, work: Generator[Event | None]) -> Job:
        """Let a generator run after those that came before; raises ApiError at the end."""
        if self._is_closing:
            raise _closing_error()
        ahead, job = self.jobs, Job(work, self._thread)
        if ahead:
            job.post(Waiting(ahead))
        self._jobs.append(job)
        return job

    def drain(self, grace: float) -> None:
        """Accept and start no more jobs, and cut the one that runs after `grace` seconds."""
        self._is_closing = True
        for job in self._jobs:
            wait = grace if job.future.running() else 0.0
            asyncio.get_running_loop().call_later(wait, job.post, _closing_error())

    def close(self) -> None:
        """End the thread after its current job."""
        self._thread.shutdown(cancel_futures=True)


def _closing_error() -> ApiError:
    return ApiError(503, "the server is shutting down", code="shutting_down")


class ConversationCache:
    """Chats of the decoding thread, the least recently used first, found by tokens and images.

    Answers do not depend on what is cached.
    """

    def __init__(self, engine: Engine, count: int, size: int) -> None:
        """count: the most chats that are kept.  size: the most bytes that their caches take."""
        self._engine, self._count, self._size = engine, count, size
        self._chats: list[Chat] = []
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._chats)

    @contextmanager
    def chat(self, options: Options, prompt: RequestPrompt) -> Iterator[Chat]:
        """Context with a chat before its question, from the cache if one begins alike.

        At its end, also by an error, the chat is kept; the least recently used ones leave.
        """
        sizes = [self._shared_tokens(chat, options, prompt.chunks) for chat in self._chats]
        if any(sizes):
            chat = self._chats.pop(sizes.index(max(sizes)))
            chat.change(options)
            chat.conversation = prompt.before
        else:
            chat = self._engine.chat(options, prompt.before)
        try:
            yield chat
        finally:
            self._chats += [chat] if chat.held_tokens else []
            sizes = [each.cache_bytes for each in self._chats]
            while len(sizes) > self._count or sum(sizes) > self._size:
                del self._chats[0], sizes[0]
            self.bytes = sum(sizes)

    def _shared_tokens(self, chat: Chat, options: Options, chunks: Sequence[Chunk]) -> int:
        """How many tokens a chat serves: most of those it holds, or its last prompt again."""
        values = {name: getattr(options, name) for name in PER_REQUEST}
        if replace(chat.options, **values) != options:
            return 0
        shared = chat.cached_tokens(chunks)
        last = chat.answer.statistics.prompt_tokens
        is_repeat = shared + 1 == last == self._engine.positions(chunks)  # one token is always fed
        return shared if is_repeat or 2 * shared >= chat.held_tokens else 0


def answer(
    cache: ConversationCache, prompt: RequestPrompt, options: Options, *, plain: bool = False
) -> Generator[Event]:
    """Generate the answer, which is that of `mmspec generate`; plain: with nothing drafted."""
    fitting = replace(options, max_new_tokens=min(options.max_new_tokens, prompt.room))
    with cache.chat(fitting, prompt) as chat:
        chat.speculate, chat.context = not plain, prompt.context
        with chat.send(prompt.question, prompt.chunks) as stream:
            yield from stream
        yield stream.answer
