"""One thread that decodes one answer at a time; others wait in the order of their arrival."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from threading import Event as Flag
from typing import Any, Generic, TypeVar

from mmspec_server.errors import ApiError

T = TypeVar("T")


class Job(Generic[T]):
    """The events of one generator, from the decoding thread to the event loop."""

    def __init__(self, work: Callable[[], Generator[T]]) -> None:
        """Called on the event loop by `DecodingQueue.submit`."""
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[T | BaseException | None] = asyncio.Queue()
        self._cancelled = Flag()
        self._end: BaseException | None = None

    def cancel(self, error: ApiError | None = None) -> None:
        """Stop the generator after its next event, or before it starts; then raise `error`."""
        self._end = self._end or error
        self._cancelled.set()

    def run(self) -> None:
        """Run the generator; called on the decoding thread."""
        try:
            if not self._cancelled.is_set():
                self._produce()
        except BaseException as error:  # noqa: BLE001 - raised where the events are awaited
            self._end = error
        self._post(self._end)

    def _produce(self) -> None:
        with closing(self._work()) as events:
            for event in events:
                self._post(event)
                if self._cancelled.is_set():
                    return

    def _post(self, event: T | BaseException | None) -> None:
        self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def events(self, silence: float | None = None) -> AsyncIterator[T | None]:
        """The events as they come; None whenever `silence` seconds have passed without one.

        Raises what the generator raised, or the error that it was cancelled with.
        """
        while True:
            try:
                event = await asyncio.wait_for(self._events.get(), silence)
            except TimeoutError:
                yield None
                continue
            if isinstance(event, BaseException):
                raise event
            if event is None:
                return
            yield event


class DecodingQueue:
    """Runs jobs one at a time; models are loaded and used on its thread alone."""

    def __init__(self, waiting: int) -> None:
        """waiting: jobs that may wait for the one that runs."""
        self._thread = ThreadPoolExecutor(1, "decoding")
        self._waiting = waiting
        self._jobs: dict[Future[None], Job[Any]] = {}
        self._closing = False

    @property
    def jobs(self) -> int:
        """Number of jobs that run or wait."""
        self._jobs = {future: job for future, job in self._jobs.items() if not future.done()}
        return len(self._jobs)

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the thread and wait for its result."""
        return self._thread.submit(function).result()

    def check_room(self) -> None:
        """Raise ApiError if no job is accepted now."""
        if self._closing:
            raise _closing_error()
        if self.jobs > self._waiting:
            reason = f"{self._waiting} requests wait already: try again later"
            raise ApiError(429, reason, code="queue_full", headers={"Retry-After": "1"})

    def submit(self, work: Callable[[], Generator[T]]) -> Job[T]:
        """Let a generator run after those that came before; raises ApiError if too many wait."""
        self.check_room()
        job = Job(work)
        self._jobs[self._thread.submit(job.run)] = job
        return job

    def drain(self, grace: float) -> None:
        """Accept and start no more jobs, and cut the one that runs after `grace` seconds."""
        self._closing = True
        loop = asyncio.get_running_loop()
        for future, job in self._jobs.items():
            if future.running():
                loop.call_later(grace, job.cancel, _closing_error())
            else:
                job.cancel(_closing_error())

    def close(self) -> None:
        """End the thread after its current job."""
        self._thread.shutdown(cancel_futures=True)


def _closing_error() -> ApiError:
    return ApiError(503, "the server is shutting down", code="shutting_down")
