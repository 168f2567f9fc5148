"""The cached decoder layer of a predictive head.

Shape letters: n rows, H width.
"""

import mlx.core as mx

from mmspec.decoding.contents import chunks
from mmspec.ground.arrays import Positions
from mmspec_mlx.network.decoder import Decoder
from mmspec_mlx.sequence.draft_tail import MlxDraftTail


class CachedLayer:
    """Implements `mmspec.drafters.heads.backend_interface.HeadLayer`."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._cache = decoder.new_cache(rows=1)

    def append(self, x: mx.array, start: int, positions: Positions | None = None) -> mx.array:
        """Feed rows [n, H] to the columns from `start` on; returns the last output [1, H].

        positions: rotary positions [3, n]; None if they are the columns.
        """
        last = x
        for low, high in chunks(0, len(x)):
            places = None if positions is None else positions[:, low:high]
            last = self._decoder.append(x[low:high], self._cache, start + low, places)
        return last[-1:]

    def settle(self) -> None:
        """Wait until the cache is computed."""
        self._cache.settle()

    def tail(self, columns: int, position: int) -> MlxDraftTail:
        """Open a draft tail after the first `columns` columns, at a rotary position."""
        return MlxDraftTail(self._decoder, self._cache, None, columns, [position])
