"""The drafter's sequence: R views of one conversation as rows of one batch.

Shape letters: R branches, k drafted tokens, n columns fed, V vocabulary, H width.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from mmspec.decoding.adaptive_weights import Adaptation, BranchOutputs
from mmspec.decoding.contents import Projection, chunks
from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.drafter_sequence import DrafterSequence, State
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec_torch.device.framework import TorchDraft, framework
from mmspec_torch.graphs.drafter import NUMBERS, Pending, StaticDrafter
from mmspec_torch.graphs.pool import Statics
from mmspec_torch.network.cache import CacheSpan
from mmspec_torch.network.decoder import LanguageModel
from mmspec_torch.network.rotary import Angles
from mmspec_torch.sequence.contents import deepstack, embed
from mmspec_torch.sequence.draft_tail import TorchDraftTail
from mmspec_torch.sequence.ensemble import Ensemble
from mmspec_torch.sequence.padding import Padding

TorchState = State[Tensor, Padding]


class TorchDrafter(DrafterSequence[Tensor, Padding]):
    """Implements `mmspec.decoding.contract.Drafter`."""

    def __init__(
        self,
        language: LanguageModel,
        place: Projection[Tensor],
        statics: Statics,
        branches: int,
        vocabulary: int,
        sampling: Sampling,
        adaptation: Adaptation | None = None,
        tree: Tree | None = None,
    ) -> None:
        """place: returns the rows [N, W] of an image's features."""
        self._language = language
        self._static = statics.drafter(self, branches, vocabulary, sampling, adaptation is None)
        self._cache = self._static.cache if self._static else language.new_cache(branches)
        ensemble = Ensemble(language, branches, vocabulary)
        own = framework(language.device), place, language.embed, ensemble
        super().__init__(*own, branches, sampling, adaptation, tree)

    def _padding(self, is_padding: Sequence[Sequence[bool]]) -> Padding:
        return Padding(is_padding, self._language.dtype, self._language.device)

    def _prefill(self, state: TorchState, start: int, end: int) -> None:
        x = torch.stack([embed(self._language, row, start, end) for row in self._rows])
        positions = np.stack([row.positions(start, end) for row in self._rows])
        cos, sin = self._language.rotary.planes(positions)
        mask = _mask(state, end)
        for at, stop in chunks(start, end):
            part = slice(at - start, stop - start)
            angles = cos[:, :, part], sin[:, :, part]
            added = deepstack(self._language, self._rows, at, stop)
            self._forward(x[:, part].flatten(0, 1), at, stop, angles, mask, added)

    def _begin(self, state: TorchState, levels: int) -> tuple[Tensor, TorchDraftTail]:
        start, rows = state.start, len(self._rows)
        x = embed(self._language, self._rows[0], start, state.columns)
        x = x if rows == 1 else torch.cat([x] * rows)
        mask = _mask(state, state.columns + levels)
        first, *angles = self._angles(state, levels)
        x = self._forward(x, start, state.columns, first, mask)
        last = x.view(rows, state.columns - start, -1)[:, -1]
        return last, TorchDraftTail(self._language, self._cache, state.columns, angles, mask)

    def _new_draft(
        self, state: TorchState, k: int, tree: Tree | None, blend: Tensor, noise: Noise
    ) -> DeviceDraft[Tensor]:
        if self._static and not tree and (pending := self._pending(state, k)):
            return self._static_draft(self._static, pending, k, blend, noise)
        return super()._new_draft(state, k, tree, blend, noise)

    def _pending(self, state: TorchState, k: int) -> Pending | None:
        """The pending tokens for the static form; None if it cannot feed them."""
        row, start = self._rows[0], state.start
        numbers = 1 + state.columns - start + len(state.lengths) + 2 * k
        outrun = max(state.positions) > state.columns  # as by a clip's time
        if numbers > NUMBERS or outrun or row.has_image(start, state.columns):
            return None
        tokens = row.ids(start, state.columns, self._language.config.vocab_size)
        return Pending(tokens, state.columns, state.positions, _mask(state, state.columns + k))

    def _static_draft(
        self, static: StaticDrafter, pending: Pending, k: int, blend: Tensor, noise: Noise
    ) -> DeviceDraft[Tensor]:
        ids, q = static.chain(pending, k, blend, noise, self._choose)
        adapts = self._state.tally is not None
        return TorchDraft(ids, BranchOutputs(blend, self._ensemble.padded(q)) if adapts else None)

    def _choose(self, last: Tensor, blend: Tensor, keys: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the token [1] after outputs [R, H], and the branches' probabilities."""
        record: list[Tensor] = []
        return self._sampler.tokens(self._ensemble.logits(blend, record, last), keys), record

    def _angles(self, state: TorchState, k: int) -> Iterator[Angles]:
        """Yield the angles of the pending columns, then of each drafted token but the last."""
        pending = state.columns - state.start
        positions = [range(end - pending, end + k - 1) for end in state.positions]
        return self._language.rotary.runs(positions, [pending] + [1] * (k - 1))

    def _forward(
        self,
        x: Tensor,
        start: int,
        end: int,
        angles: Angles,
        mask: Tensor | None,
        added: Sequence[Tensor] = (),
    ) -> Tensor:
        return self._language.follow(x, CacheSpan(self._cache, start, end), angles, mask, added)


def _mask(state: TorchState, columns: int) -> Tensor | None:
    """Return a mask of at least so many columns; None if there is no padding."""
    return state.padding.mask(columns) if state.padding else None
