"""The drafter's sequence: R views of one conversation as rows of one batched forward."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import mlx.core as mx
import numpy as np

from mmspec.decoding.adaptive_weights import Adaptation, BranchOutputs, Evidence, Tally
from mmspec.decoding.contents import Projection, Row, chunks
from mmspec.decoding.draft import DeviceDraft, require_path
from mmspec.decoding.ensemble_expander import EnsembleExpander
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.seam import Segment
from mmspec_mlx import device_io
from mmspec_mlx.framework import framework, top
from mmspec_mlx.network.decoder import LanguageModel
from mmspec_mlx.network.rotary import Rotation
from mmspec_mlx.sequence.contents import Columns, deepstack, embed
from mmspec_mlx.sequence.draft_tail import MlxDraftTail
from mmspec_mlx.sequence.ensemble import Ensemble


class MlxDrafter:
    """Implements `mmspec.seam.Drafter`.

    `_tokens` has the token that all rows share in each column, 0 where rows differ; `_columns`
    knows where a row has padding.  The first `_fed` columns are in the cache; the last column
    never is.
    """

    def __init__(
        self,
        language: LanguageModel,
        place: Projection[mx.array],
        branches: int,
        vocabulary: int,
        sampling: Sampling,
        adaptation: Adaptation | None = None,
        tree: Tree | None = None,
    ) -> None:
        """place: returns the rows [N, W] of an image's features."""
        self._language, self._place = language, place
        self._rows = branches
        self._tree = tree
        self._ensemble = Ensemble(language, branches, vocabulary)
        self._framework = framework(language.kernels)
        self._sampler = self._framework.sampler(sampling)
        self._cache = language.new_cache(branches)
        self._columns = Columns(np.ones((branches, 0), dtype=np.bool_), language.dtype)
        self._tokens: list[int] = []
        self._fed = 0
        self._draft: DeviceDraft[mx.array] | None = None
        self._tally: Tally | None = None
        if adaptation and branches > 1:
            candidates = mx.array(adaptation.candidates(branches), dtype=mx.float32)
            self._tally = Tally(language.kernels.arrays, adaptation, candidates, top)

    @property
    def length(self) -> int:
        """Number of columns in the sequence, including those not yet fed."""
        return len(self._tokens)

    @property
    def row_lengths(self) -> list[int]:
        """[R] number of tokens of each branch, without padding."""
        return self._columns.lengths(self.length)

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per branch.  All end in the same token, which is fed later."""
        last = segments[0].last
        if len(segments) != self._rows:
            raise ValueError(f"{len(segments)} segments for {self._rows} branches")
        if last is None or any(segment.last != last for segment in segments):
            raise ValueError("all segments must end in the same token")
        lengths = [len(segment) - 1 for segment in segments]
        rows = self._new_rows(segments, max(lengths))
        ends = [row.ends[self.length - self._fed :] for row in rows]
        columns = self._columns.padded(self.length, lengths, ends)
        self._prefill(rows, columns)
        self._tokens = [*self._tokens, *[0] * max(lengths), self._known(last)]
        self._columns, self._fed, self._draft = columns, self.length - 1, None

    def rewind(self, length: int) -> None:
        """Remove all columns from `length` on.  `length` must have been an earlier length."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} columns to {length}")
        columns, fed = self._columns.cut(length), min(self._fed, max(length - 1, 0))
        self._tokens, self._columns, self._fed = self._tokens[:length], columns, fed
        self._draft = None

    def draft(
        self, k: int, weights: Sequence[float], noise: Noise, nodes: int | None = None
    ) -> DeviceDraft[mx.array]:
        """Draft a chain of k tokens, or a tree of k levels, from the branches' mixture."""
        if not self.length:
            raise ValueError("an empty sequence has nothing to draft from: extend it first")
        self._draft = None
        tally, mixture = self._tally, device_io.floats(weights)
        if tally:
            tally = tally.settled()
            mixture = tally.weights(mixture)
        tree = self._tree.within(nodes, k) if self._tree else None
        draft = self._new_draft(mixture, tree, self._framework.keys(noise, k))
        self._draft, self._tally = draft, tally
        return draft

    def _new_draft(
        self, mixture: mx.array, tree: Tree | None, keys: mx.array
    ) -> DeviceDraft[mx.array]:
        at, end = self._fed, self.length
        rows = self._language.embedding.rows(device_io.integers(self._tokens[at:]))
        last = self._fed_to_all(rows, at, self._columns.positions(at))[:, -1]
        starts = self._columns.positions(end)
        tail = MlxDraftTail(self._language, self._cache, self._columns, end, starts)
        record: list[mx.array] = []
        project = partial(self._ensemble.logits, mixture, record)
        expander = EnsembleExpander(tail, last, self._language.embed, project)
        draft = self._framework.draft(self._sampler, expander, tree, keys)
        if self._tally is None or tree:
            return draft
        q = self._ensemble.padded(mx.stack(record))
        return replace(draft, branches=BranchOutputs(mixture, q))

    def commit(
        self, path: Sequence[int], tokens: Sequence[int], evidence: Evidence | None = None
    ) -> None:
        """Append `tokens`, of which the first len(path) are nodes of the last draft.

        Drafting has fed all pending tokens and, for a chain, all drafted tokens but the last.
        """
        draft, tally, fed = self._draft, self._tally, self._fed
        require_path(draft, path, tokens)
        if draft:
            followed = draft.size - 1 if draft.parents is None else 0
            fed = self.length + min(len(path), followed)
        if tally and draft:
            tally = tally.noted(evidence, len(tokens))
        self._tokens += [self._known(token) for token in tokens]
        self._fed, self._draft, self._tally = fed, None, tally

    def forget(self) -> None:
        """Discard the scores on which adaptive weights depend, if any."""
        self._tally = self._tally.forgotten() if self._tally else None

    def _known(self, token: int) -> int:
        """`token`, or the nearest that the draft's vocabulary has."""
        return min(token, self._language.config.vocab_size - 1)

    def _new_rows(self, segments: Sequence[Segment], longest: int) -> list[Row[mx.array]]:
        """The pending tokens, then the segments but their last tokens, padded to `longest`."""
        pending, rows = self._tokens[self._fed :], list[Row[mx.array]]()
        for segment, first in zip(segments, self._columns.positions(self._fed), strict=True):
            row = Row[mx.array](first=first)
            row.extend(0, pending)
            row.append(len(pending), segment, self._place)
            row.cut(len(pending) + len(segment) - 1)
            row.pad(longest + 1 - len(segment))
            rows.append(row)
        return rows

    def _prefill(self, rows: Sequence[Row[mx.array]], columns: Columns) -> None:
        """Feed rows, which follow the columns that are fed."""
        for start, stop in chunks(0, len(rows[0].tokens)):
            x = mx.stack([embed(self._language, row, start, stop) for row in rows])
            at, mask = self._fed + start, columns.mask(self._fed + start, stop - start)
            added = deepstack(self._language, rows, start, stop)
            self._language.feed(x, self._cache, at, self._turn(rows, start, stop), mask, added)
            self._cache.settle()

    def _turn(self, rows: Sequence[Row[mx.array]], start: int, stop: int) -> Rotation:
        """Return the rotation of the rows' columns; that of padding is arbitrary."""
        rotary = self._language.rotary
        if all(row.counts_up(start, stop) for row in rows):
            return rotary.at([row.position(start) for row in rows], stop - start)
        return rotary.planes(np.stack([row.positions(start, stop) for row in rows]))

    def _fed_to_all(self, rows: mx.array, at: int, starts: Sequence[int]) -> mx.array:
        """Feed embeddings [n, H] to all rows from column `at` on; returns states [R, n, H]."""
        n, width = rows.shape
        x, turn = mx.broadcast_to(rows, (self._rows, n, width)), self._language.rotary.at(starts, n)
        return self._language.feed(x, self._cache, at, turn, self._columns.mask(at, n))
