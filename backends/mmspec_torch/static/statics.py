"""Static forms lent to sequences, so that what one has captured serves the next."""

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import TypeVar
from weakref import finalize

from mmspec_torch.llama import Llama
from mmspec_torch.static.capture import Capture, CudaGraphs
from mmspec_torch.static.drafter import StaticDrafter
from mmspec_torch.static.target import StaticTarget

T = TypeVar("T", StaticTarget, StaticDrafter)


class Statics:
    """The static forms of a model's sequences: one for each open at the same time.

    `capture` is None where rounds run in the dynamic form: elsewhere than on CUDA a kernel costs
    little to enqueue, and seeing more columns than there are would cost more.  Sequences ask once,
    when they are opened.
    """

    def __init__(self, llama: Llama) -> None:
        """Capture CUDA graphs on CUDA, and nothing elsewhere."""
        cuda = llama.device.type == "cuda"
        self.capture: Capture | None = CudaGraphs(llama.device) if cuda else None
        self._llama = llama
        self._targets: list[StaticTarget] = []
        self._drafters: dict[Hashable, list[StaticDrafter]] = defaultdict(list)

    def target(self, owner: object) -> StaticTarget | None:
        """Lend a target's static form until `owner` is gone; what its cache holds is no one's."""
        if self.capture is None:
            return None
        capture = self.capture
        return _lent(self._targets, owner, lambda: StaticTarget(self._llama, capture))

    def drafter(self, owner: object, rows: int, *settings: Hashable) -> StaticDrafter | None:
        """Lend a drafter's: of `rows` rows, all having chosen tokens by the same `settings`."""
        if self.capture is None:
            return None
        capture, free = self.capture, self._drafters[rows, settings]
        return _lent(free, owner, lambda: StaticDrafter(self._llama, rows, capture))


def _lent(free: list[T], owner: object, make: Callable[[], T]) -> T:
    static = free.pop() if free else make()
    finalize(owner, free.append, static).atexit = False
    return static
