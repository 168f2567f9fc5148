"""A head's side of a sequence, as far as it is integers; written once for every backend.

Shape letters: k drafted tokens of a path, n columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mmspec.draft import Draft
from mmspec.heads.outline import Outline
from mmspec.seam import Segment


class Forwards(Protocol):
    """A head on a device, beside the target whose hidden states it reads.

    The target is never behind: it holds every column that is asked for.
    """

    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Feed the slots from `start` to `stop` to the head's cache, where it has one."""
        ...

    def propose(self, outline: Outline, start: int, k: int, draws: Sequence[float]) -> Draft:
        """Feed the slots from `start` on, then enqueue a draft whose paths have k tokens.

        What is fed of drafted tokens is void afterwards.
        """
        ...


@dataclass(frozen=True, slots=True)
class State:
    """What counts of a head's columns and cache, always replaced as a whole."""

    outline: Outline
    fed: int = 0
    """Slots in the cache."""
    draft: Draft | None = None
    """The draft that a commit may keep nodes of."""


class HeadDrafter:
    """Implements `mmspec.seam.Drafter`: one branch, which reads what the target has computed."""

    def __init__(
        self, forwards: Forwards, outline: Outline, image_token_id: int | None, slots: int = 0
    ) -> None:
        """Start empty.  slots: places predicted at most; 0 for a head that steps on without end."""
        self._forwards = forwards
        self._image_token_id = image_token_id
        self._slots = slots
        self._state = State(outline)

    @property
    def length(self) -> int:
        """Columns in the sequence, the one not yet fed included."""
        return self._state.outline.columns

    @property
    def row_lengths(self) -> list[int]:
        """[1] positions that the head's layer sees, images as they are packed."""
        outline = self._state.outline
        return [outline.rows(outline.slots) + 1]

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append the segment that the target has been extended by, and feed all slots but one."""
        (segment,) = segments
        outline = self._state.outline.extended(segment, self._image_token_id)
        stop = outline.settled(outline.columns - 2)
        if stop > self._state.fed:
            self._forwards.follow(outline, self._state.fed, stop)
        self._state = State(outline, max(self._state.fed, stop))

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} columns to {length}")
        outline = self._state.outline.cut(length)
        # The slot of the last column left waits for the next one, which may be another.
        self._state = State(outline, min(self._state.fed, outline.slots))

    def draft(self, k: int, weights: Sequence[float], draws: Sequence[float]) -> Draft | None:  # noqa: ARG002
        """Enqueue k tokens, or as many as the head has slots; None before any hidden state."""
        state = self._state = replace(self._state, draft=None)
        if state.outline.columns < 2 or state.outline.ends_in_image:
            return None
        count = min(k, self._slots) if self._slots else k
        # The last slot's output starts the draft: it is fed again where nothing is pending.
        start = min(state.fed, state.outline.slots - 1)
        draft = self._forwards.propose(state.outline, start, count, draws)
        self._state = replace(state, draft=draft)
        return draft

    def commit(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Append what the target kept; its hidden states are read with the next draft."""
        state, depth = self._state, self._state.draft.depth if self._state.draft else 0
        if len(path) > min(depth, len(tokens)):
            raise ValueError(f"path {list(path)} is none of a draft {depth} deep")
        fed = state.outline.slots if state.draft else state.fed
        self._state = State(state.outline.grown(len(tokens)), fed)

    def forget(self) -> None:
        """Nothing is observed."""
