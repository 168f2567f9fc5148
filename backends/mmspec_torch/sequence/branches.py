"""A draft model's sequences: R views of one conversation as rows of one batch, and draft tails.

Shape letters: R branches, n columns fed, w nodes of a level, E nodes of all levels so far, V
vocabulary, H width.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.branch_sequence import BranchSequence, BranchState
from mmspec.decoding.contents import chunks
from mmspec.decoding.ensemble import Lineage
from mmspec.decoding.language import deepstack, embed_row
from mmspec_torch.network.attention import Padding, Step, hiding
from mmspec_torch.network.cache import Cache
from mmspec_torch.network.decoder import Decoder, LanguageModel
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


TorchState = BranchState[Tensor, Padding]


class TorchBranches(BranchSequence[Tensor, Padding]):
    """Implements `mmspec.decoding.contract.Branches`."""

    _cache: Cache
    _language: LanguageModel

    def _padding(self, is_padding: Sequence[Sequence[bool]]) -> Padding:
        return Padding(is_padding, self._language.dtype, self._language.device)

    def _prefill(self, state: TorchState, start: int, end: int) -> None:
        language, rows = self._language, self._rows
        mask = state.padding.mask(end) if state.padding else None
        for at, stop in chunks(start, end):
            x = torch.cat([embed_row(language, row, at, stop) for row in rows])
            positions = np.stack([row.positions(at, stop) for row in rows])
            angles = language.rotary.planes(positions)
            extras = [x.flatten(0, 1) for x in deepstack(language, rows, at, stop)]
            language.follow(x, self._cache, at, angles, mask, extras)

    def _begin(self, state: TorchState, depth: int) -> tuple[Tensor, TorchDraftTail]:
        start, rows = state.start, len(self._rows)
        x = embed_row(self._language, self._rows[0], start, state.columns)
        x = x if rows == 1 else torch.cat([x] * rows)
        mask = state.padding.mask(state.columns + depth) if state.padding else None
        first, *angles = self._angles(state, depth)
        x = self._language.follow(x, self._cache, start, first, mask)
        last = x.view(rows, state.columns - start, -1)[:, -1]
        return last, TorchDraftTail(self._language, self._cache, state.columns, angles, mask)

    def _angles(self, state: TorchState, depth: int) -> Iterator[Angles]:
        """Yield the angles of the pending columns, then of each drafted token but the last."""
        pending = state.columns - state.start
        positions = [range(end - pending, end + depth - 1) for end in state.positions]
        return self._language.rotary.runs(positions, [pending] + [1] * (depth - 1))
