"""A draft model's sequences: R views of one conversation as rows of one batch.

Shape letters: R branches, n columns fed, V vocabulary, H width.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from mmspec.decoding.branch_sequence import BranchSequence
from mmspec.decoding.contents import Projection, chunks
from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.language import deepstack, embed_row
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec_torch.device.framework import TorchDraft
from mmspec_torch.network.cache import Cache
from mmspec_torch.network.decoder import LanguageModel
from mmspec_torch.network.rotary import Angles
from mmspec_torch.sequence.draft_tail import TorchDraftTail
from mmspec_torch.sequence.executor import Chain, Executor, TorchState
from mmspec_torch.sequence.padding import Padding


class TorchBranches(BranchSequence[Tensor, Padding]):
    """Implements `mmspec.decoding.contract.Branches`."""

    _cache: Cache
    _language: LanguageModel

    def __init__(
        self,
        language: LanguageModel,
        place: Projection[Tensor],
        executor: Executor,
        count: int,
        vocabulary: int,
        sampling: Sampling,
        tree: Tree | None = None,
        *,
        probabilities: bool = False,
    ) -> None:
        """place: returns the rows [N, W] of an image's features."""
        self._executor = executor.drafter(self, count, vocabulary, sampling, probabilities)
        cache, settings = self._executor.cache, (count, vocabulary, sampling, tree)
        super().__init__(language, cache, place, *settings, probabilities=probabilities)

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

    def _new_draft(
        self, state: TorchState, gamma: int, tree: Tree | None, weights: Tensor, noise: Noise
    ) -> DeviceDraft[Tensor]:
        request = Chain(self._rows[0], state, gamma, weights, noise, self._choose)
        chain = None if tree else self._executor.chain(request)
        if chain is None:
            return super()._new_draft(state, gamma, tree, weights, noise)
        ids, q = chain
        probabilities = self._ensemble.pad(q) if self._probabilities else None
        return TorchDraft(ids, gamma, branch_probabilities=probabilities)

    def _choose(self, last: Tensor, weights: Tensor, keys: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the token [1] after outputs [R, H], and the branches' probabilities."""
        record: list[Tensor] = []
        return self._sampler.tokens(self._ensemble.logits(weights, record, last), keys), record

    def _angles(self, state: TorchState, depth: int) -> Iterator[Angles]:
        """Yield the angles of the pending columns, then of each drafted token but the last."""
        pending = state.columns - state.start
        positions = [range(end - pending, end + depth - 1) for end in state.positions]
        return self._language.rotary.runs(positions, [pending] + [1] * (depth - 1))
