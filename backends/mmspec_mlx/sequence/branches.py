"""A draft model's sequences: R views of one conversation as rows of one batched forward.

Shape letters: R branches, n columns fed, H width.
"""

from collections.abc import Sequence

import mlx.core as mx

from mmspec.decoding.branch_sequence import BranchSequence, BranchState
from mmspec.decoding.contents import chunks
from mmspec.decoding.language import deepstack, embed_row
from mmspec_mlx.network.cache import Cache
from mmspec_mlx.network.decoder import LanguageModel
from mmspec_mlx.network.rotary import Rotation
from mmspec_mlx.sequence.draft_tail import MlxDraftTail
from mmspec_mlx.sequence.padding import Padding, causal_mask

MlxState = BranchState[mx.array, Padding]


class MlxBranches(BranchSequence[mx.array, Padding]):
    """Implements `mmspec.decoding.contract.Branches`."""

    _cache: Cache
    _language: LanguageModel

    def _padding(self, is_padding: Sequence[Sequence[bool]]) -> Padding:
        return Padding(is_padding, self._language.dtype)

    def _prefill(self, state: MlxState, start: int, end: int) -> None:
        for at, stop in chunks(start, end):
            x = mx.stack([embed_row(self._language, row, at, stop) for row in self._rows])
            extras = deepstack(self._language, self._rows, at, stop)
            self._feed(state, x, at, self._language.rotary.along(self._rows, at, stop), extras)
            self._cache.settle()

    def _begin(self, state: MlxState, depth: int) -> tuple[mx.array, MlxDraftTail]:  # noqa: ARG002
        start, end = state.start, state.columns
        x = embed_row(self._language, self._rows[0], start, end)
        x = mx.broadcast_to(x, (len(self._rows), *x.shape))
        firsts = [position - (end - start) for position in state.positions]
        x = self._feed(state, x, start, self._language.rotary.at(firsts, end - start))
        tail = MlxDraftTail(self._language, self._cache, state.padding, end, state.positions)
        return x[:, -1], tail

    def _feed(
        self,
        state: MlxState,
        x: mx.array,
        at: int,
        rotation: Rotation,
        extras: Sequence[mx.array] = (),
    ) -> mx.array:
        """Feed embeddings [R, n, H] to the columns from `at` on; returns the outputs."""
        mask = causal_mask(state.padding, at, x.shape[1], self._language.dtype)
        return self._language.feed(x, self._cache, at, rotation, mask, extras)
