"""The cached decoder layer of a predictive head.  n rows, H width."""

from collections.abc import Callable
from typing import Any, Generic

from mmspec.decoding.contents import chunks
from mmspec.decoding.ensemble import DraftTail
from mmspec.decoding.stored_states import LayerCaches
from mmspec.ground.arrays import A, Positions


class CachedLayer(Generic[A]):
    """A decoder layer with its own cache over one sequence."""

    def __init__(self, decoder: Any, open_tail: Callable[[Any, int, int], DraftTail[A]]) -> None:
        """decoder: the backend's, of one layer.  open_tail: as `tail`, of a cache."""
        self._decoder, self._open_tail = decoder, open_tail
        self._cache: LayerCaches[A] = decoder.new_cache(rows=1)

    def append(self, x: A, start: int, positions: Positions | None = None) -> A:
        """Feed rows [n, H] to columns `start` on; each attends to itself and all before it.

        An EAGLE-3 head's rows are [n, 2 H].  x may be overwritten.  positions: rotary positions
        [3, n]; None if they are the columns. Returns the output [1, H] of the last row.
        """
        last = x
        for low, high in chunks(0, len(x)):
            places = None if positions is None else positions[:, low:high]
            last = self._decoder.append(x[low:high], self._cache, start + low, places)
        return last[-1:]

    def settle(self) -> None:
        """Wait until the cache is computed, so that lazily evaluated work does not pile up."""
        self._cache.settle()

    def tail(self, columns: int, position: int) -> DraftTail[A]:
        """Start a draft after the first `columns` columns, at the rotary position `position`."""
        return self._open_tail(self._cache, columns, position)
