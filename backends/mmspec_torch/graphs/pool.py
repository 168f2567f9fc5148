"""Lends static forms (caches with captured forwards) to sequences, so that captures are reused."""

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import TypeVar
from weakref import finalize

from mmspec_torch.graphs.capture import Capture, CudaGraphs
from mmspec_torch.graphs.drafter import StaticDrafter
from mmspec_torch.graphs.target import StaticTarget
from mmspec_torch.network.decoder import LanguageModel

T = TypeVar("T", StaticTarget, StaticDrafter)


class Statics:
    """The static forms of a model, one for each sequence open at the same time.

    Only CUDA has them, elsewhere `capture` is None: there a kernel costs little to enqueue, and
    attending to unused columns would cost more.
    """

    def __init__(self, language: LanguageModel) -> None:
        cuda = language.device.type == "cuda"
        self.capture: Capture | None = CudaGraphs(language.device) if cuda else None
        self._language = language
        self._targets: list[StaticTarget] = []
        self._drafters: dict[Hashable, list[StaticDrafter]] = defaultdict(list)

    def target(self, owner: object) -> StaticTarget | None:
        """Lend a static target until `owner` is garbage-collected; None without CUDA."""
        if self.capture is None:
            return None
        capture = self.capture
        return _lend(self._targets, owner, lambda: StaticTarget(self._language, capture))

    def drafter(self, owner: object, rows: int, *settings: Hashable) -> StaticDrafter | None:
        """Lend a static drafter of `rows` rows and these settings; None without CUDA."""
        if self.capture is None:
            return None
        capture, free = self.capture, self._drafters[rows, settings]
        return _lend(free, owner, lambda: StaticDrafter(self._language, rows, capture))


def _lend(free: list[T], owner: object, make: Callable[[], T]) -> T:
    static = free.pop() if free else make()
    finalize(owner, free.append, static).atexit = False
    return static
