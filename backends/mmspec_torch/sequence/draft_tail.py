"""Cache columns for the nodes of one draft, after the columns of the sequence.

Shape letters: R branches, w nodes of a level, E nodes of all levels so far, H width.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.ensemble import Lineage
from mmspec_torch.network.attention import Step, hiding
from mmspec_torch.network.cache import Cache
from mmspec_torch.network.decoder import Decoder
from mmspec_torch.network.rotary import Angles


class TorchDraftTail:
    """Implements `mmspec.decoding.ensemble.DraftTail`."""

    def __init__(
        self,
        decoder: Decoder,
        cache: Cache,
        columns: int,
        angles: Iterable[Angles],
        mask: Tensor | None = None,
    ) -> None:
        """columns: number of columns of the sequence, all fed. angles: those of each level.

        mask: [R, 1, 1, columns or more], hides padding; None if no row has any.
        """
        self._decoder, self._cache = decoder, cache
        self._columns = self._end = columns
        self._angles = iter(angles)
        self._padding = mask
        self._lineage = Lineage(decoder.framework, lambda visible: hiding(~visible, decoder.dtype))

    def feed(self, x: Tensor, parents: Tensor | None) -> Tensor:
        """Feed x [w, H] to every row; returns outputs [R * w, H].  parents: None in a chain."""
        rows, start, angles = self._cache.rows, self._end, next(self._angles)
        self._end += len(x)
        x = x if rows == 1 else torch.cat([x] * rows)
        if parents is None:
            return self._decoder.follow(x, self._cache, start, angles, self._padding)
        lineage, columns = self._lineage.add(parents), self._columns
        mask = F.pad(lineage, (columns, 0))  # the sequence's columns stand before the draft's
        if self._padding is not None:
            mask = mask + F.pad(self._padding[..., :columns], (0, lineage.shape[1]))
        layers = self._cache.layers(start, self._end)
        return self._decoder.forward(x, Step(angles, layers, mask))
