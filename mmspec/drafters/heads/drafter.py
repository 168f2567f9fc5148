"""Decides, by host integers only, what a head is fed for a sequence; shared by all backends.

A slot is what a head's layer reads for one column of the sequence; see `packing`.

Shape letters: n columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import Draft, Plan, require_path
from mmspec.decoding.noise import Noise
from mmspec.drafters.heads.forwards import HeadForwards
from mmspec.drafters.heads.packing import Outline


@dataclass(frozen=True, slots=True)
class HeadState:
    """The outline of a head's sequence and how much of the head's cache is valid; immutable."""

    outline: Outline
    cache_slots: int = 0
    """Number of slots whose rows are in the head's cache."""
    draft: Draft | None = None
    """The last draft, whose nodes the next commit may accept."""


class HeadDrafter:
    """Implements `contract.Drafter` for a head, which reads the target's hidden states."""

    def __init__(
        self,
        forwards: HeadForwards[Any, Any],
        outline: Outline,
        slots: int,
        positions: int | None,
    ) -> None:
        """slots: the most tokens that the head can predict; 0 if it drafts autoregressively.

        positions: number of positions that the head was trained for; None if it has no limit.
        """
        self._forwards = forwards
        self._slots, self._positions = slots, positions
        self._state = HeadState(outline)

    @property
    def length(self) -> int:
        """Number of columns in the sequence, including the last one, which is not fed."""
        return self._state.outline.columns

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append the segment by which the target was extended, and feed all slots but the last."""
        (segment,) = segments
        outline, start = self._state.outline.with_segment(segment), self._state.cache_slots
        stop = outline.whole_slots(outline.columns - 2)
        if stop > start:
            self._forwards.follow(outline, start, stop)
        self._state = HeadState(outline, max(start, stop))

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} columns to {length}")
        outline = self._state.outline.cut(length)
        # The last remaining column's slot needs the next column, which may differ now.
        self._state = HeadState(outline, min(self._state.cache_slots, outline.slots))

    def draft(self, plan: Plan, noise: Noise) -> Draft | None:
        """Enqueue a draft of the plan's tokens, or as many as the head can predict.

        None while the target has no hidden state, and when the head's positions are used up.
        """
        state = self._state = replace(self._state, draft=None)
        outline = state.outline
        room = self.room
        plan = plan.within(min(self._slots or plan.gamma, plan.gamma if room is None else room))
        if outline.columns < 2 or outline.ends_in_image or not plan.gamma:
            return None
        # The last slot's output starts the draft, so it is fed again if no slot is pending.
        start = min(state.cache_slots, outline.slots - 1)
        draft = self._forwards.propose(outline, start, plan, noise)
        self._state = replace(state, draft=draft)
        return draft

    @property
    def room(self) -> int | None:
        """Most tokens that the layer has positions for; None if it may run past them."""
        if self._positions is None:
            return None
        outline = self._state.outline  # a packed image may take few of the layer's positions
        return max(self._positions - outline.position(outline.slots) - 1, 0)

    def commit(self, path: Sequence[int], tokens: Sequence[int], verdict: Verdict) -> None:  # noqa: ARG002
        """Append `tokens`; the next draft reads the target's hidden states at them."""
        state = self._state
        require_path(state.draft, path, tokens)
        cache_slots = state.outline.slots if state.draft else state.cache_slots
        self._state = HeadState(state.outline.with_text(len(tokens)), cache_slots)
