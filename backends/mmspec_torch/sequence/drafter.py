"""The drafter's sequence: R views of one conversation as rows of one batch.

Shape letters: R branches, k drafted tokens, n columns fed, V vocabulary, H width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.adaptive_weights import Adaptation, BranchOutputs, Evidence, Tally
from mmspec.decoding.contents import PAD, Projection, Row, chunks
from mmspec.decoding.draft import DeviceDraft, require_path
from mmspec.decoding.ensemble_expander import EnsembleExpander
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.seam import Segment
from mmspec_torch.device_io import upload
from mmspec_torch.framework import framework, top
from mmspec_torch.graphs.drafter import NUMBERS, Pending, StaticDrafter
from mmspec_torch.graphs.pool import Statics
from mmspec_torch.network.cache import STEP, CacheSpan
from mmspec_torch.network.decoder import LanguageModel, hidden
from mmspec_torch.network.rotary import Angles
from mmspec_torch.sequence.contents import deepstack, embed
from mmspec_torch.sequence.draft import TorchDraft
from mmspec_torch.sequence.draft_tail import TorchDraftTail
from mmspec_torch.sequence.ensemble import Ensemble


class State(NamedTuple):
    """Which columns of a drafter's rows and cache are valid; always replaced as a whole."""

    columns: int
    fed: int
    """Number of columns in the cache; later ones are pending tokens, shared by all rows."""
    lengths: tuple[int, ...]
    """[R] number of tokens of each row, without padding."""
    positions: tuple[int, ...]
    """[R] the rotary position that follows each row."""
    mask: Tensor | None = None
    """Mask [R, 1, 1, columns or more] that hides padding; None if no row has any."""
    draft: DeviceDraft[Tensor] | None = None
    """The draft whose tokens the next commit may accept."""
    tally: Tally | None = None
    """Scores of the branches, for adaptive weights; None if the weights are fixed."""

    @property
    def followed(self) -> int:
        """Number of drafted tokens in the cache: of a chain all but the last, of a tree none."""
        return self.draft.size - 1 if self.draft and self.draft.parents is None else 0


class TorchDrafter:
    """Implements `mmspec.seam.Drafter`."""

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
        self._language, self._place, self._tree = language, place, tree
        self._ensemble = Ensemble(language, branches, vocabulary)
        self._framework = framework(language.device)
        self._sampler = self._framework.sampler(sampling)
        settings = vocabulary, sampling, adaptation is None
        self._static = statics.drafter(self, branches, *settings)
        self._cache = self._static.cache if self._static else language.new_cache(branches)
        self._rows: list[Row[Tensor]] = [Row() for _ in range(branches)]
        tally = None
        if adaptation and branches > 1:
            points = upload(adaptation.candidates(branches), torch.float32, self._language.device)
            tally = Tally(self._framework.xp, adaptation, points, top)
        self._state = State(0, 0, (0,) * branches, (0,) * branches, tally=tally)
        self._uploaded: tuple[Sequence[float], Tensor] = (), torch.empty(0)

    @property
    def length(self) -> int:
        """Number of columns in the sequence, including those not yet fed."""
        return self._state.columns

    @property
    def row_lengths(self) -> list[int]:
        """[R] number of tokens of each branch, without padding."""
        return list(self._state.lengths)

    @torch.inference_mode()
    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per branch, padded in front to the longest."""
        self._check(segments)
        columns = self._state.columns
        width = max(map(len, segments))
        for row, segment in zip(self._rows, segments, strict=True):
            row.append(columns, segment, self._place, width - len(segment))
        self._state = self._prefilled(self._state.fed, columns + width)

    def rewind(self, length: int) -> None:
        """Remove all columns from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} columns to {length}")
        self._state = self._described(length, min(self._state.fed, length))

    @torch.inference_mode()
    def draft(
        self, k: int, weights: Sequence[float], noise: Noise, nodes: int | None = None
    ) -> DeviceDraft[Tensor]:
        """Draft a chain of k tokens, or a tree of k levels, from the branches' mixture."""
        if not self.length:
            raise ValueError("an empty sequence has nothing to draft from: extend it first")
        state = self._state = self._ready(k)
        blend, tally = self._blend(weights), state.tally
        if tally:
            tally = tally.settled()
            blend = tally.weights(blend)
        tree = self._tree.within(nodes, k) if self._tree else None
        if self._static and not tree and (pending := self._unfed(state, k)):
            draft = self._static_draft(self._static, pending, k, blend, noise)
        else:
            draft = self._new_draft(state, k, tree, blend, noise)
        self._state = state._replace(draft=draft, tally=tally)
        return draft

    def commit(
        self, path: Sequence[int], tokens: Sequence[int], evidence: Evidence | None = None
    ) -> None:
        """Append `tokens`, of which the first len(path) are nodes of the last draft."""
        state = self._state
        require_path(state.draft, path, tokens)
        for row in self._rows:
            row.extend(state.columns, list(tokens))
        reused = state.columns + min(len(path), state.followed)
        lengths = tuple(length + len(tokens) for length in state.lengths)
        positions = tuple(position + len(tokens) for position in state.positions)
        fed, tally = reused if state.draft else state.fed, state.tally
        if tally and state.draft:
            tally = tally.noted(evidence, len(tokens))
        columns = state.columns + len(tokens)
        self._state = State(columns, fed, lengths, positions, state.mask, tally=tally)

    def forget(self) -> None:
        """Discard the scores on which adaptive weights depend, if any."""
        if self._state.tally:
            self._state = self._state._replace(tally=self._state.tally.forgotten())

    def _blend(self, weights: Sequence[float]) -> Tensor:
        if weights != self._uploaded[0]:
            self._uploaded = weights, upload(weights, torch.float32, self._language.device)
        return self._uploaded[1]

    def _check(self, segments: Sequence[Segment]) -> None:
        if len(segments) != len(self._rows):
            raise ValueError(f"{len(segments)} segments for {len(self._rows)} branches")
        if len({segment.last for segment in segments}) > 1:
            raise ValueError("the segments of all branches must end in the same token")

    def _prefilled(self, start: int, columns: int) -> State:
        """Feed the columns from `start` up to the last of `columns`; returns the state."""
        end = columns - 1
        state = self._described(columns, max(start, end))
        if start >= end:
            return state
        x = torch.stack([embed(self._language, row, start, end) for row in self._rows])
        positions = np.stack([row.positions(start, end) for row in self._rows])
        cos, sin = self._language.rotary.planes(positions)
        for at, stop in chunks(start, end):
            part = slice(at - start, stop - start)
            angles = cos[:, :, part], sin[:, :, part]
            added = deepstack(self._language, self._rows, at, stop)
            self._forward(x[:, part].flatten(0, 1), at, stop, angles, state.mask, added)
        return state

    def _described(self, columns: int, fed: int) -> State:
        """The state in which `columns` columns are valid and `fed` of them are in the cache."""
        lengths = tuple(sum(row.lengths(columns)[-1:]) for row in self._rows)
        positions = tuple(row.position(columns) for row in self._rows)
        tally = self._state.tally
        if min(lengths) == columns:
            return State(columns, fed, lengths, positions, tally=tally)
        shade = hidden(self._language.dtype)
        shades = [[shade * (t == PAD) for t in row.tokens[:columns]] for row in self._rows]
        mask = upload(shades, self._language.dtype, self._language.device)[:, None, None]
        return State(columns, fed, lengths, positions, F.pad(mask, (0, STEP)), tally=tally)

    def _ready(self, k: int) -> State:
        """Return the state without its draft, with a mask that covers k more columns."""
        state, end = self._state, self._state.columns + k
        mask = state.mask
        if mask is not None and mask.shape[-1] < end:
            mask = F.pad(mask, (0, end + STEP - mask.shape[-1]))
        elif state.draft is None:
            return state
        return state._replace(mask=mask, draft=None)

    def _new_draft(
        self, state: State, k: int, tree: Tree | None, blend: Tensor, noise: Noise
    ) -> DeviceDraft[Tensor]:
        start, rows = min(state.fed, state.columns - 1), len(self._rows)
        x = embed(self._language, self._rows[0], start, state.columns)
        x = x if rows == 1 else torch.cat([x] * rows)
        first, *angles = self._angles(state, start, tree.depth(k) if tree else k)
        x = self._forward(x, start, state.columns, first, state.mask)
        last = x.view(len(self._rows), state.columns - start, -1)[:, -1]
        tail = TorchDraftTail(self._language, self._cache, state.columns, angles, state.mask)
        record: list[Tensor] = []
        project = partial(self._ensemble.logits, blend, record)
        expander = EnsembleExpander(tail, last, self._language.embed, project)
        keys = self._framework.keys(noise, k)
        draft = self._framework.draft(self._sampler, expander, tree, keys)
        if state.tally is None or tree:
            return draft
        return replace(draft, branches=self._outputs(blend, torch.stack(record)))

    def _unfed(self, state: State, k: int) -> Pending | None:
        """The pending tokens for the static form; None if it cannot feed them."""
        row, start = self._rows[0], min(state.fed, state.columns - 1)
        numbers = 1 + state.columns - start + len(state.lengths) + 2 * k
        outrun = max(state.positions) > state.columns  # as by a clip's time
        if numbers > NUMBERS or outrun or row.has_image(start, state.columns):
            return None
        tokens = row.ids(start, state.columns, self._language.config.vocab_size)
        return Pending(tokens, state.columns, state.positions, state.mask)

    def _static_draft(
        self, static: StaticDrafter, pending: Pending, k: int, blend: Tensor, noise: Noise
    ) -> DeviceDraft[Tensor]:
        ids, q = static.chain(pending, k, blend, noise, self._choose)
        return TorchDraft(ids, self._outputs(blend, q) if self._state.tally else None)

    def _choose(self, last: Tensor, blend: Tensor, keys: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the token [1] after outputs [R, H], and the branches' probabilities."""
        record: list[Tensor] = []
        return self._sampler.tokens(self._ensemble.logits(blend, record, last), keys), record

    def _outputs(self, blend: Tensor, q: Tensor) -> BranchOutputs:
        return BranchOutputs(blend, self._ensemble.padded(q))

    def _angles(self, state: State, start: int, k: int) -> Iterator[Angles]:
        """Yield the angles of the pending columns, then of each drafted token but the last."""
        pending = state.columns - start
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
