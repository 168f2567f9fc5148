"""The same sequence as several draft branches see it, in one batch.

Shape letters: R branches, k drafted tokens, n columns fed, V vocabulary, H width.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.adaptive import Adaptation, Evidence, Tally
from mmspec.frontier import Branches
from mmspec.sampling import Sampling
from mmspec.seam import Segment
from mmspec.tree import Tree
from mmspec_torch.cache import STEP, Span
from mmspec_torch.device import upload
from mmspec_torch.draft import Choice, TorchDraft
from mmspec_torch.frontier import Tail
from mmspec_torch.growth import grown, top
from mmspec_torch.llama import Angles, chunks, hidden
from mmspec_torch.mixture import Mixture
from mmspec_torch.row import PAD, Row
from mmspec_torch.static.drafter import Pending, StaticDrafter, waiting

if TYPE_CHECKING:
    from mmspec_torch.llava import TorchModel


class State(NamedTuple):
    """What counts of a drafter's rows and cache, always replaced as a whole."""

    columns: int
    fed: int
    """Columns in the cache; those after are pending, tokens that all rows share."""
    lengths: tuple[int, ...]
    """[R] tokens of each row, padding left out."""
    mask: Tensor | None = None
    """[R, 1, 1, columns or more] hides padding; None where no row has any."""
    draft: TorchDraft | None = None
    """The draft that a commit may keep tokens of."""
    tally: Tally | None = None
    """What has been observed of the branches, where the drafter adapts."""

    @property
    def followed(self) -> int:
        """How many drafted tokens are in the cache: a chain's but the last, none of a tree."""
        return self.draft.size - 1 if self.draft and self.draft.parents is None else 0


class TorchDrafter:
    """Implements `mmspec.seam.Drafter`."""

    def __init__(
        self,
        model: "TorchModel",
        branches: int,
        vocabulary: int,
        sampling: Sampling,
        adaptation: Adaptation | None = None,
        tree: Tree | None = None,
    ) -> None:
        """Start empty; `vocabulary` is V of the target."""
        self._model, self._llama = model, model.llama
        self._tree = tree
        self._mixture = Mixture(model.llama, sampling, branches, vocabulary)
        settings = vocabulary, sampling, adaptation is None
        self._static = None if tree else model.statics.drafter(self, branches, *settings)
        self._cache = self._static.cache if self._static else model.llama.new_cache(branches)
        self._rows = [Row() for _ in range(branches)]
        tally = None
        if adaptation and branches > 1:
            points = upload(adaptation.candidates(branches), torch.float32, self._llama.device)
            tally = Tally(xp, adaptation, points, top)
        self._state = State(0, 0, (0,) * branches, tally=tally)
        self._uploaded: tuple[Sequence[float], Tensor] = (), torch.empty(0)

    @property
    def length(self) -> int:
        """Columns in the sequence, those not yet fed included."""
        return self._state.columns

    @property
    def row_lengths(self) -> list[int]:
        """[R] tokens each branch sees, padding left out."""
        return list(self._state.lengths)

    @torch.inference_mode()
    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per branch, padded in front to the longest."""
        self._check(segments)
        columns = self._state.columns
        width = max(len(segment.tokens) for segment in segments)
        for row, segment in zip(self._rows, segments, strict=True):
            padding = width - len(segment.tokens)
            row.append(columns, segment, padding, self._model.config.image_token_id)
        self._state = self._prefilled(self._state.fed, columns + width)

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} columns to {length}")
        self._state = self._described(length, min(self._state.fed, length))

    @torch.inference_mode()
    def draft(self, k: int, weights: Sequence[float], draws: Sequence[float]) -> TorchDraft:
        """Enqueue k tokens from the mixture of the branches, or a tree of as many levels."""
        if not self.length:
            raise ValueError("an empty sequence has nothing to draft from: extend it first")
        state = self._state = self._ready(k)
        blend, tally = self._blend(weights), state.tally
        if tally:
            tally = tally.settled()
            blend = tally.weights(blend)
        if self._tree:
            draft = self._grown(state, self._tree, k, blend)
        else:
            draft = self._chain(state, k, blend, draws)
        self._state = state._replace(draft=draft, tally=tally)
        return draft

    def commit(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Append what the target kept."""
        state = self._state
        self._check_path(path, tokens)
        for row in self._rows:
            row.extend(state.columns, list(tokens))
        kept = state.columns + min(len(path), state.followed)
        lengths = tuple(length + len(tokens) for length in state.lengths)
        fed, tally = kept if state.draft else state.fed, state.tally
        if tally and state.draft:
            tally = tally.noted(state.draft.evidence, len(tokens))
        self._state = State(state.columns + len(tokens), fed, lengths, state.mask, tally=tally)

    def forget(self) -> None:
        """Observe from nothing again."""
        if self._state.tally:
            self._state = self._state._replace(tally=self._state.tally.forgotten())

    def _blend(self, weights: Sequence[float]) -> Tensor:
        """The weights [R] on the device, which seldom change."""
        if weights != self._uploaded[0]:
            self._uploaded = weights, upload(weights, torch.float32, self._llama.device)
        return self._uploaded[1]

    def _check(self, segments: Sequence[Segment]) -> None:
        if len(segments) != len(self._rows):
            raise ValueError(f"{len(segments)} segments for {len(self._rows)} branches")
        if len({tuple(segment.tokens[-1:]) for segment in segments}) > 1:
            raise ValueError("the segments of all branches must end in the same token")

    def _check_path(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Refuse a path that the draft does not have, as far as the host knows it."""
        draft = self._state.draft
        depth = draft.depth if draft else 0
        chain = draft is None or draft.parents is None
        if len(path) > min(depth, len(tokens)) or (chain and list(path) != list(range(len(path)))):
            raise ValueError(f"path {list(path)} is none of a draft {depth} deep")

    def _prefilled(self, start: int, columns: int) -> State:
        """The state once all columns from `start` but the last are fed."""
        end = columns - 1
        state = self._described(columns, max(start, end))
        if start >= end:
            return state
        x = torch.stack([self._model.embed(row, start, end) for row in self._rows])
        seen = [row.lengths(end)[start:] for row in self._rows]
        cos, sin = self._llama.rotary.at([[max(each - 1, 0) for each in row] for row in seen])
        for at, stop in chunks(start, end):
            part = slice(at - start, stop - start)
            angles = cos[:, :, part], sin[:, :, part]
            self._forward(x[:, part].flatten(0, 1), at, stop, angles, state.mask)
        return state

    def _described(self, columns: int, fed: int) -> State:
        """The state of the rows' first columns, padding counted anew."""
        lengths = tuple(sum(row.lengths(columns)[-1:]) for row in self._rows)
        tally = self._state.tally
        if min(lengths) == columns:
            return State(columns, fed, lengths, tally=tally)
        shade = hidden(self._llama.dtype)
        shades = [[shade * (t == PAD) for t in row.tokens[:columns]] for row in self._rows]
        mask = upload(shades, self._llama.dtype, self._llama.device)[:, None, None]
        return State(columns, fed, lengths, F.pad(mask, (0, STEP)), tally=tally)

    def _ready(self, k: int) -> State:
        """The state without a draft, its mask with room for k columns more, which all rows see."""
        state, end = self._state, self._state.columns + k
        mask = state.mask
        if mask is not None and mask.shape[-1] < end:
            mask = F.pad(mask, (0, end + STEP - mask.shape[-1]))
        elif state.draft is None:
            return state
        return state._replace(mask=mask, draft=None)

    def _pending(self, state: State) -> tuple[int, Tensor]:
        """The first column that is not fed, and the embeddings [R * n, H] from there on."""
        start = min(state.fed, state.columns - 1)
        x = self._model.embed(self._rows[0], start, state.columns)
        return start, self._by_rows(x)

    def _by_rows(self, shared: Tensor) -> Tensor:
        """What all rows share [n, ...], once for each."""
        rows = len(self._rows)
        return shared if rows == 1 else torch.cat([shared] * rows)

    def _grown(self, state: State, tree: Tree, k: int, blend: Tensor) -> TorchDraft:
        start, x = self._pending(state)
        first, *angles = self._angles(state, start, tree.depth(k))
        x = self._forward(x, start, state.columns, first, state.mask)
        last = x.view(len(self._rows), state.columns - start, -1)[:, -1]
        tail = Tail(self._llama, self._cache, state.columns, angles, state.mask)
        frontier = Branches(tail, last, self._llama.embed, partial(self._mixture.of_nodes, blend))
        return grown(frontier, tree, k, self._llama.device)

    def _chain(self, state: State, k: int, blend: Tensor, draws: Sequence[float]) -> TorchDraft:
        if self._static and (pending := waiting(self._model, self._rows[0], state, k)):
            return self._fixed(self._static, pending, k, blend, draws)
        each: Sequence[Tensor | None] = [None] * k
        if draws:
            each = upload(draws, torch.float32, self._llama.device).view(-1, 1).unbind()
        start, x = self._pending(state)
        choices: list[Choice] = []
        for node, angles in enumerate(self._angles(state, start, k)):
            end = state.columns + node
            if choices:
                x, start = self._llama.embed(choices[-1].token.expand(len(self._rows))), end - 1
            x = self._forward(x, start, end, angles, state.mask)
            if end - start > 1:
                x = x.view(len(self._rows), end - start, -1)[:, -1]
            choices.append(self._mixture.next(x, blend, each[node]))
        tokens, q, rows = zip(*choices, strict=True)
        evidence = Evidence(blend, self._mixture.stacked(rows)) if state.tally else None
        return TorchDraft(torch.cat(tokens), self._mixture.stacked(q), evidence)

    def _fixed(
        self, static: StaticDrafter, pending: Pending, k: int, blend: Tensor, draws: Sequence[float]
    ) -> TorchDraft:
        """What `_chain` returns, in the static form."""
        adapts = self._state.tally is not None
        ids, q, rows = static.chain(pending, k, blend, draws, self._mixture.next, adapts)
        q, rows = (None if p is None else self._mixture.padded(p) for p in (q, rows))
        return TorchDraft(ids, q, Evidence(blend, rows) if adapts else None)

    def _angles(self, state: State, start: int, k: int) -> Iterator[Angles]:
        """The angles of the pending columns, then of each drafted token but the last."""
        pending = state.columns - start
        positions = [range(length - pending, length + k - 1) for length in state.lengths]
        return self._llama.rotary.runs(positions, [pending] + [1] * (k - 1))

    def _forward(
        self, x: Tensor, start: int, end: int, angles: Angles, mask: Tensor | None
    ) -> Tensor:
        return self._llama.follow(x, Span(self._cache, start, end), angles, mask)
