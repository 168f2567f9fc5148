"""The drafter's sequence: R views of one conversation as rows of one batched forward."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import mlx.core as mx
import numpy as np

from mmspec.decoding.adaptive_weights import Adaptation, BranchOutputs, Evidence, Tally
from mmspec.decoding.contents import PAD, Row, chunks
from mmspec.decoding.draft import DeviceDraft, require_path
from mmspec.decoding.ensemble_expander import EnsembleExpander
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.seam import Segment
from mmspec_mlx import device_io
from mmspec_mlx.framework import framework, top
from mmspec_mlx.network.llava import Llava
from mmspec_mlx.sequence.contents import Columns, embed
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
        llava: Llava,
        branches: int,
        vocabulary: int,
        sampling: Sampling,
        adaptation: Adaptation | None = None,
        tree: Tree | None = None,
    ) -> None:
        self._llava, llama = llava, llava.llama
        self._llama = llama
        self._rows = branches
        self._tree = tree
        self._ensemble = Ensemble(llama, branches, vocabulary)
        self._framework = framework(llama.kernels)
        self._sampler = self._framework.sampler(sampling)
        self._cache = llama.new_cache(branches)
        self._columns = Columns(np.ones((branches, 0), dtype=np.bool_), llama.dtype)
        self._tokens: list[int] = []
        self._fed = 0
        self._draft: DeviceDraft[mx.array] | None = None
        self._tally: Tally | None = None
        if adaptation and branches > 1:
            candidates = mx.array(adaptation.candidates(branches), dtype=mx.float32)
            self._tally = Tally(llama.kernels.arrays, adaptation, candidates, top)

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
        columns = self._columns.padded(self.length, lengths)
        self._prefill(segments, columns, max(lengths))
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
        rows = self._llama.embedding.rows(device_io.integers(self._tokens[at:]))
        last = self._fed_to_all(rows, at, self._columns.lengths(at))[:, -1]
        starts = self._columns.lengths(end)
        tail = MlxDraftTail(self._llama, self._cache, self._columns, end, starts)
        record: list[mx.array] = []
        project = partial(self._ensemble.logits, mixture, record)
        expander = EnsembleExpander(tail, last, self._llama.embed, project)
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
        """`token`, or 0 if the draft's vocabulary lacks it."""
        return token if token < self._llama.config.vocab_size else 0

    def _prefill(self, segments: Sequence[Segment], columns: Columns, longest: int) -> None:
        """Feed the pending tokens, then the segments but their last tokens, padded to `longest`."""
        pending, rows = self._tokens[self._fed :], list[Row[mx.array]]()
        for segment in segments:
            rows.append(Row(list(pending)))
            rows[-1].append(len(pending), segment, self._llava.projected)
            rows[-1].tokens[-1:] = [PAD] * (longest + 1 - len(segment))
        starts = columns.lengths(self._fed)
        for start, stop in chunks(0, len(pending) + longest):
            x = mx.stack([embed(self._llama, row, start, stop) for row in rows])
            at, ahead = self._fed + start, [position + start for position in starts]
            turn = self._llama.rotary.at(ahead, stop - start)
            self._llama.feed(x, self._cache, at, turn, columns.mask(at, stop - start))
            self._cache.settle()

    def _fed_to_all(self, rows: mx.array, at: int, starts: Sequence[int]) -> mx.array:
        """Feed embeddings [n, H] to all rows from column `at` on; returns states [R, n, H]."""
        n, width = rows.shape
        x, turn = mx.broadcast_to(rows, (self._rows, n, width)), self._llama.rotary.at(starts, n)
        return self._llama.feed(x, self._cache, at, turn, self._columns.mask(at, n))
