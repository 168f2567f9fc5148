"""A draft model's rows, their lengths and the last draft, as every backend keeps them on the host.

Shape letters: R branches, n columns, w nodes of a level, v ids that both models have, H width.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from mmspec.decoding.contents import Projection, Row
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import DeviceDraft, Plan, require_path
from mmspec.decoding.ensemble import DraftTail, Ensemble, TailExpander
from mmspec.decoding.language import Language
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.stored_states import LayerCaches
from mmspec.decoding.tree import Tree
from mmspec.ground.arrays import A
from mmspec.ground.tokens import PADDING

MOST_STEPS = 32
"""The most pending columns that recurrent layers compute one by one; more are fed like a prompt."""

P = TypeVar("P")
"""What hides padding, as the backend needs it."""


class BranchState(NamedTuple, Generic[A, P]):
    """Which columns of the branches' rows and cache are valid; always replaced as a whole."""

    columns: int
    cache_length: int
    """Number of columns in the cache; later ones are pending tokens, shared by all rows."""
    lengths: tuple[int, ...]
    """[R] number of tokens of each row, without padding."""
    positions: tuple[int, ...]
    """[R] the rotary position that follows each row."""
    padding: P | None = None
    """What hides padding; None if no row has any."""
    draft: DeviceDraft[A] | None = None
    """The draft whose tokens the next commit may accept."""

    @property
    def start(self) -> int:
        """The first column that the next draft feeds: the last one is fed again if none pends."""
        return min(self.cache_length, self.columns - 1)

    @property
    def draft_columns(self) -> int:
        """Number of drafted tokens in the cache: of a chain all but the last, of a tree none."""
        return self.draft.size - 1 if self.draft and self.draft.parents is None else 0


class BranchSequence(ABC, Generic[A, P]):
    """Implements `mmspec.decoding.contract.Branches`; subclasses add forwards."""

    def __init__(
        self,
        language: Language[A],
        place: Projection[A],
        count: int,
        vocabulary: int,
        sampling: Sampling,
        tree: Tree | None,
        *,
        probabilities: bool,
        cache: LayerCaches[A] | None = None,
    ) -> None:
        """place: returns the rows [N, W] of an image.  cache: empty; a new one if None.

        The others are those of `contract.Model.open_branches`.
        """
        self._language, self._place, self.framework = language, place, language.framework
        self._cache = language.new_cache(count) if cache is None else cache
        self._ensemble = Ensemble(language, count, vocabulary)
        self._tree, self._probabilities = tree, probabilities
        self._sampler, self._states = self.framework.sampler(sampling), self._cache.states
        self._rows: list[Row[A]] = [Row() for _ in range(count)]
        self._state = BranchState[A, P](0, 0, (0,) * count, (0,) * count)

    @property
    def length(self) -> int:
        """Number of columns in the sequence, including those not yet fed."""
        return self._state.columns

    @property
    def row_lengths(self) -> list[int]:
        """[R] number of tokens of each branch, without padding."""
        return list(self._state.lengths)

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per branch, padded in front to the longest."""
        self._check(segments)
        columns, start = self._state.columns, self._state.cache_length
        width = max(map(len, segments))
        end = columns + width - 1
        with self.framework.inference():
            for row, segment in zip(self._rows, segments, strict=True):
                row.append(columns, segment, self._place, width - len(segment))
            state = self._state_at(columns + width, max(start, end))
            if start < end:
                self._feed_columns(state, start, end)
        self._state = state

    def rewind(self, length: int) -> None:
        """Remove all columns from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} columns to {length}")
        self._state = self._state_at(length, min(self._state.cache_length, length))

    def draft(self, plan: Plan, weights: A, noise: Noise) -> DeviceDraft[A]:
        """Draft a chain, or a tree, from the branches' mixture with `weights` [R]."""
        if not self.length:
            raise ValueError("an empty sequence has nothing to draft from: extend it first")
        state = self._state = self._state._replace(draft=None)
        tree = self._tree.within(plan.nodes, plan.gamma) if self._tree else None
        with self.framework.inference():
            draft = self._new_draft(state, plan.gamma, tree, weights, noise)
        self._state = state._replace(draft=draft)
        return draft

    def commit(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Append `tokens`, of which the first len(path) are nodes of the last draft."""
        state = self._state
        require_path(state.draft, path, tokens)
        for row in self._rows:
            row.extend(state.columns, list(tokens))
        cache_length = state.cache_length
        if state.draft:
            cache_length = state.columns + min(len(path), state.draft_columns)
        lengths = tuple(length + len(tokens) for length in state.lengths)
        positions = tuple(position + len(tokens) for position in state.positions)
        columns = state.columns + len(tokens)
        self._state = BranchState(columns, cache_length, lengths, positions, state.padding)

    def _check(self, segments: Sequence[Segment]) -> None:
        if len(segments) != len(self._rows):
            raise ValueError(f"{len(segments)} segments for {len(self._rows)} branches")
        if len({segment.last for segment in segments}) > 1:
            raise ValueError("the segments of all branches must end in the same token")

    def _state_at(self, columns: int, cache_length: int) -> BranchState[A, P]:
        """The state in which `columns` columns are valid, and the cache has `cache_length`."""
        lengths = tuple(row.length(columns) for row in self._rows)
        positions = tuple(row.position(columns) for row in self._rows)
        padding = None
        if min(lengths) < columns:
            tokens = (row.tokens[:columns] for row in self._rows)
            padding = self._padding([[token == PADDING for token in row] for row in tokens])
        return BranchState(columns, cache_length, lengths, positions, padding)

    def _new_draft(
        self, state: BranchState[A, P], gamma: int, tree: Tree | None, weights: A, noise: Noise
    ) -> DeviceDraft[A]:
        framework, xp, record = self.framework, self.framework.xp, list[Any]()
        if self._states:
            is_long = state.columns - state.start > MOST_STEPS
            start = state.columns - 1 if is_long else state.start
            self._feed_columns(state, state.start, start)
            state = state._replace(cache_length=start)
            self._states.steps = None
        last, tail = self._begin(state, tree.depth(gamma) if tree else gamma)
        project = partial(self._ensemble.logits, weights, record)
        expander = TailExpander(framework, tail, last, self._language.embed, project)
        draft = framework.draft(self._sampler, expander, tree, framework.keys(noise, gamma))
        if not self._probabilities:
            return draft
        levels = (xp.reshape(q, (len(self._rows), -1, q.shape[-1])) for q in record)
        by_node = xp.concat([xp.permute_dims(level, (1, 0, 2)) for level in levels], axis=0)
        return replace(draft, branch_probabilities=self._ensemble.pad(by_node))

    def _feed_columns(self, state: BranchState[A, P], start: int, end: int) -> None:
        """Feed columns, with recurrent layers as they were at the first of them."""
        if self._states:
            start = self._states.resume(start)
            self._states.steps = 0
        if start < end:
            self._prefill(state, start, end)

    @abstractmethod
    def _padding(self, is_padding: Sequence[Sequence[bool]]) -> P:
        """What hides the columns [R, n] of padding, and no later ones."""

    @abstractmethod
    def _prefill(self, state: BranchState[A, P], start: int, end: int) -> None:
        """Feed the columns `start` to `end` of all rows, as `state` describes them."""

    @abstractmethod
    def _begin(self, state: BranchState[A, P], depth: int) -> tuple[A, DraftTail[A]]:
        """Feed the columns from `state.start` on; the last one's outputs [R, H], and a tail."""
