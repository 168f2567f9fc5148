"""A draft model's sequences: R views of one conversation as rows of one batch, and draft tails.

Shape letters: R branches, n columns fed, w nodes of a level, E nodes of all levels so far, H width.
"""

from collections.abc import Sequence
from functools import partial

import mlx.core as mx

from mmspec.decoding.branch_sequence import BranchSequence, BranchState
from mmspec.decoding.contents import chunks
from mmspec.decoding.ensemble import Lineage
from mmspec.decoding.language import deepstack, embed_row
from mmspec_mlx.network.attention import Padding, additive, causal_mask, tree_mask
from mmspec_mlx.network.cache import Cache
from mmspec_mlx.network.decoder import Decoder, LanguageModel
from mmspec_mlx.network.rotary import Rotation


class MlxDraftTail:
    """Implements `mmspec.decoding.ensemble.DraftTail`."""

    def __init__(
        self,
        decoder: Decoder,
        cache: Cache,
        padding: Padding | None,
        columns: int,
        starts: Sequence[int],
    ) -> None:
        """columns: number of columns of the sequence, all fed.

        starts: [R] each row's next position.
        """
        self._decoder, self._cache = decoder, cache
        self._padding, self._starts = padding, starts
        self._columns = self._end = columns
        self._level = 0
        self._lineage = Lineage(decoder.framework, partial(additive, dtype=decoder.dtype))

    def feed(self, x: mx.array, parents: mx.array | None) -> mx.array:
        """Feed x [w, H] to every row; returns outputs [R * w, H].  parents: None in a chain."""
        rows, count = len(self._starts), len(x)
        positions = [start + self._level for start in self._starts]
        at, self._end, self._level = self._end, self._end + count, self._level + 1
        if parents is None:
            rotation = self._decoder.rotary.at(positions, count)
            mask = causal_mask(self._padding, at, count, self._decoder.dtype)
        else:
            places = mx.broadcast_to(mx.expand_dims(mx.array(positions), 1), (rows, count))
            rotation = self._decoder.rotary.at_positions(places, max(positions))
            lineage = self._lineage.add(parents)
            mask = tree_mask(self._padding, self._columns, lineage)
        x = mx.broadcast_to(x, (rows, *x.shape))
        return mx.flatten(self._decoder.feed(x, self._cache, at, rotation, mask), 0, 1)


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
