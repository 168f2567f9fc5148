"""Batches made ahead by a background process, and signals delayed while a run writes state."""

import atexit
import itertools
import multiprocessing
import os
import pickle
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Protocol, TypeVar

from mmspec.ground.errors import MmspecError

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PREFETCHED = 16
"""Number of batches that the background process makes ahead."""
Batch = TypeVar("Batch", covariant=True)


class Source(Protocol[Batch]):
    """An endless sequence of batches in a fixed order."""

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield batches number `start`, `start` + 1, ..., without end."""


def prefetch(
    source: Source[Batch], start: int, workers: int = 1, every: int = 1
) -> Iterator[Batch]:
    """Yield a source's batches number `start`, `start` + `every`, ..., made in the background.

    With `workers` 0 this process makes them. More than one worker would change the order.
    Raises the MmspecError of the background process in place of the batch that failed, and
    MmspecError with the exit status if that process crashes.
    """
    if not workers:
        yield from itertools.islice(source.batches(start), 0, None, every)
        return
    # A pipe and not a queue of PyTorch or of `multiprocessing`: the semaphores of those, and the
    # handshakes for shared tensors, print warnings if a signal comes at the wrong moment.
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    worker = spawn.Process(target=_make_batches, args=(source, start, every, sender), daemon=True)
    try:
        # A signal during the start would leave a process that nobody ends.
        with uninterrupted(), blocked_in_children():
            worker.start()
            # A suspended generator is not closed when the interpreter exits.
            atexit.register(worker.kill)
            sender.close()
        yield from _received(receiver, worker)
    finally:
        if worker.pid is not None:
            worker.kill()
            worker.join()
            atexit.unregister(worker.kill)
        receiver.close()


def _received(receiver: Connection, worker: BaseProcess) -> Iterator[Batch]:
    while True:
        try:
            batch = pickle.loads(receiver.recv_bytes())
        except (EOFError, OSError):  # OSError: the worker ended in the middle of a batch
            break
        if isinstance(batch, MmspecError):
            raise batch
        yield batch
    worker.join()
    if worker.exitcode:
        raise MmspecError(
            f"the process that makes batches ended with status {worker.exitcode}; its own message, "
            "if any, is above: the same command goes on from the last saved state"
        )


def _make_batches(source: Source[object], start: int, every: int, sender: Connection) -> None:
    """Send a source's batches; if it raises MmspecError, the last thing sent is that error."""
    import torch

    torch.set_num_threads(1)
    ready: queue.Queue[bytes | None] = queue.Queue(PREFETCHED)
    sending = threading.Thread(target=_send, args=(ready, sender), daemon=True)
    sending.start()
    try:
        for batch in itertools.islice(source.batches(start), 0, None, every):
            ready.put(pickle.dumps(batch))
    except MmspecError as error:
        ready.put(pickle.dumps(error))
    ready.put(None)
    sending.join()


def _send(ready: "queue.Queue[bytes | None]", sender: Connection) -> None:
    """Send queued items until None comes; end this process if the receiver has ended."""
    try:
        while (pickled := ready.get()) is not None:
            sender.send_bytes(pickled)
    except OSError:
        os._exit(0)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP until the end of the block.

    Does nothing outside the main thread, which is the only one that receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {
        ending: signal.signal(ending, lambda number, _: received.append(number))
        for ending in ENDING
    }
    try:
        yield
    finally:
        for ending, handler in handlers.items():
            signal.signal(ending, handler)
    for number in received[:1]:
        signal.raise_signal(number)


@contextmanager
def blocked_in_children() -> Iterator[None]:
    """Block Ctrl-C, SIGTERM and SIGHUP for good in each process that the block starts.

    A signal to the whole process group is then handled by this process alone.
    """
    resource_tracker.ensure_running()  # starting one within the block would end the blocking
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
