"""The cached decoder layer of a predictive head.

Shape letters: n rows, H width.
"""

from itertools import count

from torch import Tensor

from mmspec.decoding.contents import chunks
from mmspec.ground.arrays import Positions
from mmspec_torch.network.decoder import Decoder
from mmspec_torch.sequence.draft_tail import TorchDraftTail


class CachedLayer:
    """Implements `mmspec.drafters.heads.backend_interface.HeadLayer`."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._cache = decoder.new_cache(rows=1)

    def append(self, x: Tensor, start: int, positions: Positions | None = None) -> Tensor:
        """Feed rows [n, H] to the columns from `start` on; returns the last output [1, H].

        positions: rotary positions [3, n]; None if they are the columns.
        """
        last = x
        for low, high in chunks(0, len(x)):
            places = None if positions is None else positions[:, low:high]
            last = self._decoder.append(x[low:high], self._cache, start + low, places)
        return last[-1:]

    def settle(self) -> None:
        """Do nothing: PyTorch is not lazy."""

    def tail(self, columns: int, position: int) -> TorchDraftTail:
        """Open a draft tail after the first `columns` columns, at a rotary position."""
        rotary = self._decoder.rotary
        angles = (rotary.run(at, at + 1) for at in count(position))
        return TorchDraftTail(self._decoder, self._cache, columns, angles)
