"""The drafter's sequence: R views of one conversation as rows of one batched forward."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from mmspec import maths
from mmspec.adaptive import Adaptation, Evidence, Tally
from mmspec.sampling import Sampling
from mmspec.seam import Segment
from mmspec_mlx import host
from mmspec_mlx.columns import Columns
from mmspec_mlx.llama import CHUNK, Llama
from mmspec_mlx.prompt import Place, Placed, embed


@dataclass(frozen=True, slots=True)
class MlxDraft:
    """A drafted chain, on the device.

    ids: k arrays [1].  q: k arrays [1, V] they were drawn from, none if they are point masses.
    evidence: where the drafter adapts.
    """

    ids: list[mx.array]
    q: list[mx.array]
    evidence: Evidence | None = None

    @property
    def size(self) -> int:
        """The number of drafted tokens."""
        return len(self.ids)


class MlxDrafter:
    """See `mmspec.seam.Drafter`.

    `_tokens` holds each column's shared token, 0 where rows differ; `_columns` says which rows
    see which.  The first `_fed` columns are valid; there are always more tokens than that.
    """

    def __init__(
        self,
        llama: Llama,
        place: Place,
        branches: int,
        vocabulary: int,
        sampling: Sampling,
        adaptation: Adaptation | None = None,
    ) -> None:
        """Start with no columns; see `mmspec.seam.Model.open_drafter`."""
        self._llama = llama
        self._place = place
        self._rows = branches
        self._vocabulary = vocabulary
        self._sampling = sampling
        self._xp = llama.kernels.arrays
        self._cache = llama.new_cache(branches)
        self._columns = Columns(np.ones((branches, 0), dtype=np.bool_), llama.dtype)
        self._tokens: list[int] = []
        self._fed = 0
        self._draft: MlxDraft | None = None
        self._tally: Tally | None = None
        if adaptation and branches > 1:
            candidates = mx.array(adaptation.candidates(branches), dtype=mx.float32)
            self._tally = Tally(self._xp, adaptation, candidates)

    @property
    def length(self) -> int:
        """Columns in the sequence, those not yet fed included."""
        return len(self._tokens)

    @property
    def row_lengths(self) -> list[int]:
        """[R] tokens each branch sees, padding left out."""
        return self._columns.lengths(self.length)

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per branch, all ending in the same token, which is not fed."""
        last = segments[0].tokens[-1]
        if len(segments) != self._rows:
            raise ValueError(f"{len(segments)} segments for {self._rows} branches")
        if any(each.tokens[-1] != last for each in segments):
            raise ValueError("all segments must end in the same token")
        lengths = [len(each.tokens) - 1 for each in segments]
        columns = self._columns.padded(self.length, lengths)
        self._prefill(segments, columns, max(lengths))
        self._tokens = [*self._tokens, *[0] * max(lengths), self._known(last)]
        self._columns, self._fed, self._draft = columns, self.length - 1, None

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on.  Only lengths seen before a call are given."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} columns to {length}")
        columns, fed = self._columns.cut(length), min(self._fed, max(length - 1, 0))
        self._tokens, self._columns, self._fed = self._tokens[:length], columns, fed
        self._draft = None

    def draft(self, k: int, weights: Sequence[float], draws: Sequence[float]) -> MlxDraft:
        """Enqueue k tokens (k >= 1) from the mixture of the branches.  Never blocks."""
        self._draft = None
        tally, mixture = self._tally, host.numbers(weights)
        if tally:
            tally = tally.settled()
            mixture = tally.weights(mixture)
        draft = self._drafted(k, mixture, host.numbers(draws))
        self._draft, self._tally = draft, tally
        return draft

    def _drafted(self, k: int, mixture: mx.array, uniforms: mx.array) -> MlxDraft:
        chain, at, starts = MlxDraft([], []), self._fed, self._columns.lengths(self._fed)
        said = []
        rows = self._llama.embedding.rows(host.ids(self._tokens[at:]))
        for node in range(k):
            logits = self._step(rows, at, starts)
            said.append(self._choose(chain, logits, mixture, uniforms[node : node + 1]))
            # The device starts on this token while the next one's operations are listed.
            host.start(chain.ids[-1])
            at, starts = at + len(rows), [start + len(rows) for start in starts]
            rows = self._llama.embedding.rows(chain.ids[-1])
        evidence = Evidence(mixture, self._padded(mx.stack(said))) if self._tally else None
        return replace(chain, evidence=evidence)

    def commit(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Append what the target kept: `path` nodes of the last draft, ending `tokens`' others.

        The draft fed all that was pending and its own tokens but the last.
        """
        drafted, tally = self._draft.size if self._draft else 0, self._tally
        kept = min(len(path), drafted - 1) if drafted else None
        if len(path) > min(drafted, len(tokens)):
            raise ValueError(f"a path of {len(path)} nodes in a draft of {drafted}")
        fed = self._fed if kept is None else self.length + kept
        if tally and self._draft:
            tally = tally.noted(self._draft.evidence, len(tokens))
        self._tokens += [self._known(token) for token in tokens]
        self._fed, self._draft, self._tally = fed, None, tally

    def forget(self) -> None:
        """Observe from nothing again; without effect on a drafter that does not adapt."""
        self._tally = self._tally.forgotten() if self._tally else None

    def _known(self, token: int) -> int:
        """Stand in token 0 for one of the target's that this model has no embedding of."""
        return token if token < self._llama.config.vocab_size else 0

    def _prefill(self, segments: Sequence[Segment], columns: Columns, longest: int) -> None:
        """Feed what is pending and every segment but its last token, padded to `longest`."""
        pending = self._tokens[self._fed :]
        placed = [self._place(segment, len(pending)) for segment in segments]
        width = len(pending) + longest
        rows = [([*pending, *ids[:-1]], pictures) for ids, pictures in placed]
        padded = [(ids + [0] * (width - len(ids)), pictures) for ids, pictures in rows]
        starts = columns.lengths(self._fed)
        for start in range(0, width, CHUNK):
            part = self._embed(padded, start, min(start + CHUNK, width))
            at, ahead = self._fed + start, [each + start for each in starts]
            self._llama.feed(part, self._cache, at, ahead, columns.mask(at, part.shape[1]))
            self._cache.settle()

    def _embed(self, rows: Sequence[Placed], start: int, end: int) -> mx.array:
        """Embeddings [R, end - start, H] of a slice of every row."""
        return mx.stack(
            [embed(self._llama, ids[start:end], pictures, start) for ids, pictures in rows]
        )

    def _step(self, rows: mx.array, at: int, starts: Sequence[int]) -> mx.array:
        """Feed tokens' embeddings [n, H] to all rows; return logits [R, shared ids]."""
        n, width = rows.shape
        x = mx.broadcast_to(rows, (self._rows, n, width))
        x = self._llama.feed(x, self._cache, at, starts, self._columns.mask(at, n))
        logits = self._llama.logits(x[:, -1])
        if logits.shape[-1] > self._vocabulary:
            logits = logits[:, : self._vocabulary]
        return logits

    def _choose(
        self, chain: MlxDraft, logits: mx.array, weights: mx.array, uniform: mx.array
    ) -> mx.array:
        """Append to the chain a token from the rows' mixture, and q if it is drawn from it.

        Return what each row says, [R, shared ids]; as logits where one row's argmax is all.
        """
        if self._sampling.greedy and self._rows == 1:
            chain.ids.append(mx.argmax(logits, axis=-1).reshape(1))
            return logits
        rows: mx.array = maths.softmax(self._xp, logits)
        mixed = mx.expand_dims(maths.mix(self._xp, weights, rows), 0)
        if self._sampling.greedy:
            chain.ids.append(mx.argmax(mixed, axis=-1).reshape(1))
            return rows
        q = maths.warp(self._xp, mixed, self._sampling)
        chain.ids.append(maths.draw(self._xp, q, uniform).astype(mx.uint32))
        chain.q.append(self._padded(q))
        return rows

    def _padded(self, q: mx.array) -> mx.array:
        """Distributions [..., V of the target]; ids that the draft does not have get nothing."""
        missing = self._vocabulary - q.shape[-1]
        return mx.pad(q, [*[(0, 0)] * (q.ndim - 1), (0, missing)])
