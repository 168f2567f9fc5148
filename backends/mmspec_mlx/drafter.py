"""The drafter's sequence: R views of one conversation as rows of one batched forward."""

from collections.abc import Sequence
from functools import partial

import mlx.core as mx
import numpy as np

from mmspec import maths
from mmspec.adaptive import Adaptation, Evidence, Tally
from mmspec.frontier import Branches
from mmspec.sampling import Sampling
from mmspec.seam import Segment
from mmspec.tree import Tree
from mmspec_mlx import host
from mmspec_mlx.columns import Columns
from mmspec_mlx.draft import MlxDraft
from mmspec_mlx.formulas import Formulas
from mmspec_mlx.frontier import Tail
from mmspec_mlx.growth import grown, top
from mmspec_mlx.llama import CHUNK, Llama
from mmspec_mlx.prompt import Place, Placed, embed


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
        tree: Tree | None = None,
    ) -> None:
        """Start with no columns; see `mmspec.seam.Model.open_drafter`."""
        self._llama = llama
        self._place = place
        self._rows = branches
        self._vocabulary = vocabulary
        self._sampling = sampling
        self._tree = tree
        self._xp = llama.kernels.arrays
        self._formulas = Formulas(llama.kernels, sampling)
        self._cache = llama.new_cache(branches)
        self._columns = Columns(np.ones((branches, 0), dtype=np.bool_), llama.dtype)
        self._tokens: list[int] = []
        self._fed = 0
        self._draft: MlxDraft | None = None
        self._tally: Tally | None = None
        if adaptation and branches > 1:
            candidates = mx.array(adaptation.candidates(branches), dtype=mx.float32)
            self._tally = Tally(self._xp, adaptation, candidates, top)

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
        """Enqueue k tokens from the mixture of the branches, or a tree of as many levels."""
        self._draft = None
        tally, mixture = self._tally, host.numbers(weights)
        if tally:
            tally = tally.settled()
            mixture = tally.weights(mixture)
        if self._tree:
            draft = self._grown(self._tree, k, mixture)
        else:
            draft = self._chain(k, mixture, host.numbers(draws))
        self._draft, self._tally = draft, tally
        return draft

    def _grown(self, tree: Tree, k: int, mixture: mx.array) -> MlxDraft:
        at, end = self._fed, self.length
        rows = self._llama.embedding.rows(host.ids(self._tokens[at:]))
        last = self._fed_to_all(rows, at, self._columns.lengths(at))[:, -1]
        starts = self._columns.lengths(end)
        tail = Tail(self._llama, self._cache, self._columns, end, starts)
        frontier = Branches(tail, last, self._llama.embed, partial(self._mixed, mixture))
        return grown(frontier, tree, k, self._xp)

    def _mixed(self, mixture: mx.array, last: mx.array) -> mx.array:
        """What the rows together say [w, V] at hidden states [R * w, H]."""
        said: mx.array = maths.softmax(self._xp, self._shared(self._llama.logits(last)))
        if self._rows == 1:
            return said
        together = maths.mix(self._xp, mixture, said.reshape(self._rows, -1))
        return mx.array(together).reshape(len(last) // self._rows, -1)

    def _chain(self, k: int, mixture: mx.array, uniforms: mx.array) -> MlxDraft:
        ids: list[mx.array] = []
        q: list[mx.array] = []
        at, starts = self._fed, self._columns.lengths(self._fed)
        said = []
        rows = self._llama.embedding.rows(host.ids(self._tokens[at:]))
        for node in range(k):
            logits = self._step(rows, at, starts)
            said.append(self._choose(ids, q, logits, mixture, uniforms[node : node + 1]))
            # The device starts on this token while the next one's operations are listed.
            host.start(ids[-1])
            at, starts = at + len(rows), [start + len(rows) for start in starts]
            rows = self._llama.embedding.rows(ids[-1])
        evidence = Evidence(mixture, self._padded(mx.stack(said))) if self._tally else None
        return MlxDraft(mx.concatenate(ids), mx.concatenate(q) if q else None, evidence)

    def commit(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Append what the target kept: `path` nodes of the last draft, ending `tokens`' others.

        The draft fed all that was pending and, of a chain, its own tokens but the last.
        """
        draft, tally, fed = self._draft, self._tally, self._fed
        depth = draft.depth if draft else 0
        if len(path) > min(depth, len(tokens)):
            raise ValueError(f"a path of {len(path)} nodes in a draft {depth} deep")
        if draft:
            followed = depth - 1 if draft.parents is None else 0
            fed = self.length + min(len(path), followed)
        if tally and draft:
            tally = tally.noted(draft.evidence, len(tokens))
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
            turn = self._llama.rotary.at(ahead, part.shape[1])
            self._llama.feed(part, self._cache, at, turn, columns.mask(at, part.shape[1]))
            self._cache.settle()

    def _embed(self, rows: Sequence[Placed], start: int, end: int) -> mx.array:
        """Embeddings [R, end - start, H] of a slice of every row."""
        return mx.stack(
            [embed(self._llama, ids[start:end], pictures, start) for ids, pictures in rows]
        )

    def _step(self, rows: mx.array, at: int, starts: Sequence[int]) -> mx.array:
        """Feed tokens' embeddings [n, H] to all rows; return logits [R, shared ids]."""
        return self._shared(self._llama.logits(self._fed_to_all(rows, at, starts)[:, -1]))

    def _fed_to_all(self, rows: mx.array, at: int, starts: Sequence[int]) -> mx.array:
        """Feed tokens' embeddings [n, H] to all rows; return hidden states [R, n, H]."""
        n, width = rows.shape
        x, turn = mx.broadcast_to(rows, (self._rows, n, width)), self._llama.rotary.at(starts, n)
        return self._llama.feed(x, self._cache, at, turn, self._columns.mask(at, n))

    def _shared(self, logits: mx.array) -> mx.array:
        """Logits [..., shared ids]: those that the target does not have are cut."""
        return logits[..., : self._vocabulary] if logits.shape[-1] > self._vocabulary else logits

    def _choose(
        self,
        ids: list[mx.array],
        drawn: list[mx.array],
        logits: mx.array,
        weights: mx.array,
        uniform: mx.array,
    ) -> mx.array:
        """Append to the chain a token from the rows' mixture, and q if it is drawn from it.

        Return what each row says, [R, shared ids]; as logits where one row's argmax is all.
        """
        if self._sampling.greedy and self._rows == 1:
            ids.append(mx.argmax(logits, axis=-1).reshape(1))
            return logits
        rows: mx.array
        rows, mixture = self._formulas.mixed(weights, logits)
        if self._sampling.greedy:
            ids.append(mx.argmax(mixture, axis=-1).reshape(1))
            return rows
        q, token = self._formulas.proposed(mixture, uniform)
        ids.append(token)
        drawn.append(self._padded(q))
        return rows

    def _padded(self, q: mx.array) -> mx.array:
        """Distributions [..., V of the target]; ids that the draft does not have get nothing."""
        missing = self._vocabulary - q.shape[-1]
        return mx.pad(q, [*[(0, 0)] * (q.ndim - 1), (0, missing)])
