"""Cache columns after the committed ones, for the nodes of a draft.

Shape letters: R branches, w nodes expanded at once, E expanded so far, H width.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec_torch.network.cache import Cache, CacheSpan
from mmspec_torch.network.llama import Decoder, Step
from mmspec_torch.network.rotary import Angles
from mmspec_torch.sequence.tree_ops import Lineage


class TorchDraftTail:
    """Implements `mmspec.decoding.ensemble_expander.DraftTail`."""

    def __init__(
        self,
        decoder: Decoder,
        cache: Cache,
        columns: int,
        angles: Iterable[Angles],
        mask: Tensor | None = None,
    ) -> None:
        """columns: committed columns, all fed.  angles: of each level's positions.

        mask: [R, 1, 1, columns or more], hides padding.
        """
        self._decoder, self._cache = decoder, cache
        self._columns = self._end = columns
        self._angles = iter(angles)
        self._padding = mask
        self._lineage = Lineage()

    def feed(self, x: Tensor, parents: Tensor | None) -> Tensor:
        """Feed x [w, H] to every row; returns outputs [R * w, H]."""
        rows, start = self._cache.rows, self._end
        self._end += len(x)
        span, angles = CacheSpan(self._cache, start, self._end), next(self._angles)
        x = x if rows == 1 else torch.cat([x] * rows)
        if parents is None:
            return self._decoder.follow(x, span, angles, self._padding)
        mask = self._mask(self._lineage.add(parents, x))
        return self._decoder.forward(x, Step(angles, span, mask))

    def _mask(self, lineage: Tensor) -> Tensor:
        """Return the mask [w, columns + E], or [R, 1, w, columns + E], of a level."""
        order = F.pad(lineage, (self._columns, 0))
        if self._padding is None:
            return order
        return order + F.pad(self._padding[..., : self._columns], (0, lineage.shape[1]))
