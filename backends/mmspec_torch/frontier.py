"""Columns behind the committed ones, for the nodes of a draft.

Shape letters: R branches, w nodes expanded at once, E expanded so far, H width.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec_torch.cache import Cache, Span
from mmspec_torch.growth import Lineage
from mmspec_torch.llama import Angles, Decoder, Step


class Tail:
    """Implements `mmspec.frontier.Tail`."""

    def __init__(
        self,
        decoder: Decoder,
        cache: Cache,
        columns: int,
        angles: Iterable[Angles],
        mask: Tensor | None = None,
    ) -> None:
        """Start behind `columns`, which are all fed.

        angles: of each level's positions.  mask: [R, 1, 1, columns or more] hides padding.
        """
        self._decoder, self._cache = decoder, cache
        self._columns = self._end = columns
        self._angles = iter(angles)
        self._padding = None if mask is None else mask[..., :columns]
        self._lineage = Lineage()

    def feed(self, x: Tensor, parents: Tensor | None) -> Tensor:
        """Feed x [w, H] to every row; returns outputs [R * w, H]."""
        rows, start = self._cache.rows, self._end
        self._end += len(x)
        mask = None if parents is None else self._mask(self._lineage.add(parents, x))
        step = Step(next(self._angles), Span(self._cache, start, self._end), mask)
        return self._decoder.forward(x if rows == 1 else torch.cat([x] * rows), step)

    def _mask(self, lineage: Tensor) -> Tensor:
        """The mask [w, columns + E], or [R, 1, w, columns + E], of a level."""
        order = F.pad(lineage, (self._columns, 0))
        if self._padding is None:
            return order
        return order + F.pad(self._padding, (0, lineage.shape[1]))
