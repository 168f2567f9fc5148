"""Prefetching of batches in a background process, in a fixed order."""

import itertools
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from torch.utils.data import DataLoader, IterableDataset

from mmspec.errors import MmspecError

PREFETCHED = 16
"""Number of batches that the background process makes ahead."""
Batch = TypeVar("Batch", covariant=True)


class Source(Protocol[Batch]):
    """An endless sequence of batches in a fixed order."""

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield batches number `start`, `start` + 1, ..., without end."""


@dataclass(frozen=True)
class ProcessShare(Generic[Batch]):
    """The batches of process `rank` out of `count`: every `count`-th, from number `rank` on."""

    source: Source[Batch]
    rank: int
    count: int

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield this process's batches from its own number `start` on."""
        first = start * self.count + self.rank
        return itertools.islice(self.source.batches(first), 0, None, self.count)


def prefetch(
    source: Source[Batch], start: int, workers: int = 1, prefetched: int = PREFETCHED
) -> Iterator[Batch]:
    """Yield a source's batches from number `start` on, made in a background process.

    With `workers` 0 this process makes them. More than one worker would change the order.
    An MmspecError of the background process is raised here, in place of the batch that failed.
    """
    if not workers:
        yield from source.batches(start)
        return
    loader = DataLoader(
        _PickledBatches(source, start),
        batch_size=None,
        num_workers=1,
        prefetch_factor=prefetched,
        multiprocessing_context="spawn",
        worker_init_fn=_end_with_parent,
    )
    for pickled in loader:
        batch = pickle.loads(pickled)
        if isinstance(batch, MmspecError):
            raise batch
        yield batch


class _PickledBatches(IterableDataset[bytes]):
    """The pickled batches of a source; if it raises MmspecError, the last item is that error.

    Pickled here because PyTorch would share each tensor by a handshake between the processes: a
    signal in the middle of one makes the other side print a traceback.
    """

    def __init__(self, source: Source[object], start: int) -> None:
        self.source, self.start = source, start

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from map(pickle.dumps, self.source.batches(self.start))
        except MmspecError as error:
            yield pickle.dumps(error)


def _end_with_parent(_: int) -> None:
    """Make this worker exit when its parent exits, killed or not.

    A worker that waits for room in the queue would otherwise wait for ever. It ignores Ctrl-C and
    exits quietly on SIGTERM, so that the parent alone handles signals and reports no error.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    parent = multiprocessing.parent_process()
    assert parent

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
