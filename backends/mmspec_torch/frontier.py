"""A drafter's branches, asked what follows every node of a tree.

Shape letters: R branches, w nodes expanded at once, E expanded so far, V vocabulary, H width.
"""

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec_torch.cache import Cache, Span
from mmspec_torch.growth import Lineage
from mmspec_torch.llama import Angles, Llama, Step


class Branches:
    """Implements `mmspec.growth.Frontier`: nodes are fed to every row, in columns of their own.

    The columns lie behind the committed ones and are given up with the tree.
    """

    def __init__(
        self,
        llama: Llama,
        cache: Cache,
        columns: int,
        mask: Tensor | None,
        angles: Iterable[Angles],
        last: Tensor,
        said: Callable[[Tensor], Tensor],
    ) -> None:
        """Start behind `columns`, which are all fed.

        mask: [R, 1, 1, columns or more] hides padding.  angles: of each level's positions.
        last: [R, 1, H] outputs at the last column.  said: outputs [R, w, H] to mixtures [w, V].
        """
        self._llama, self._cache, self._said, self._last = llama, cache, said, last
        self._columns = self._end = columns
        self._padding = None if mask is None else mask[..., :columns]
        self._angles = iter(angles)
        self._lineage = Lineage()

    def root(self) -> Tensor:
        """Probabilities [1, V] of the token after the sequence."""
        return self._said(self._last)

    def expand(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """Probabilities [w, V] of what follows nodes of the next level."""
        rows, count = self._cache.rows, tokens.shape[0]
        x = torch.cat([self._llama.embed(tokens)] * rows)
        mask = self._mask(self._lineage.add(parents, x))
        start, self._end = self._end, self._end + count
        step = Step(next(self._angles), Span(self._cache, start, self._end), mask)
        return self._said(self._llama.forward(x, step).view(rows, count, -1))

    def _mask(self, lineage: Tensor) -> Tensor:
        """The mask [w, columns + E], or [R, 1, w, columns + E], of a level."""
        order = F.pad(lineage, (self._columns, 0))
        if self._padding is None:
            return order
        return order + F.pad(self._padding, (0, lineage.shape[1]))
