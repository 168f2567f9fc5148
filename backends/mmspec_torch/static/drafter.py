"""Drafting a chain, all branches and all tokens of it, as one fixed sequence of kernels.

Shape letters: R branches, k drafted tokens, p columns pending, V vocabulary, H width.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from mmspec_torch.draft import Choice
from mmspec_torch.llama import Llama
from mmspec_torch.row import Row
from mmspec_torch.static.capture import Capture, Outputs
from mmspec_torch.static.frame import Frame, send

if TYPE_CHECKING:
    from mmspec_torch.drafter import State
    from mmspec_torch.llava import TorchModel

NUMBERS = 256
"""The most numbers of a round that are uploaded."""


Choose = Callable[[Tensor, Tensor, Tensor | None], Choice]
"""From outputs [R, H], weights [R] and perhaps a draw [1] to the next token."""


class Pending(NamedTuple):
    """Where a draft starts."""

    tokens: Sequence[int]
    """[p] that are not fed yet, the same in every row."""
    columns: int
    """Of the sequence, those pending included."""
    lengths: Sequence[int]
    """[R] tokens of each row, padding left out."""
    mask: Tensor | None
    """[R, 1, 1, any] hides padding; columns beyond it are seen."""


def waiting(model: "TorchModel", row: Row, state: "State", k: int) -> Pending | None:
    """Where a draft of k tokens starts; None where an image is pending, or too much is.

    row: any of the drafter's, for what is pending is the same in all.
    """
    start = min(state.fed, state.columns - 1)
    numbers = 1 + state.columns - start + len(state.lengths) + k
    if numbers > NUMBERS or any(stop > start for _, stop in row.shown(state.columns)):
        return None
    tokens = model.clamped(row.tokens[start : state.columns])
    return Pending(tokens, state.columns, state.lengths, state.mask)


class StaticDrafter:
    """The cache of several branches, and chains drafted after it."""

    def __init__(self, llama: Llama, rows: int, capture: Capture) -> None:
        """Start with an empty cache of R rows."""
        device = llama.device
        self._frame, self._rows = Frame(llama, rows, capture), rows
        self._numbers = torch.zeros(NUMBERS, device=device)
        self._blend = torch.zeros(rows, device=device)
        self._shade = torch.zeros(rows, 1, 1, 0, device=device, dtype=llama.dtype)
        self._mask: Tensor | None = None
        self.cache = self._frame.cache

    def chain(
        self,
        pending: Pending,
        k: int,
        blend: Tensor,
        draws: Sequence[float],
        choose: Choose,
        adapts: bool,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Draft k tokens: ids [k], q [k, V] where they are drawn and, where somebody adapts to it,
        what each branch said [k, R, V].

        blend: [R].  choose: a function of its arguments and of what never changes here.
        """
        width = self._frame.reach(pending.columns + k)
        start, count = pending.columns - len(pending.tokens), len(pending.tokens)
        send((start, *pending.tokens, *pending.lengths, *draws), self._numbers)
        self._blend.copy_(blend)
        self._hide(pending.mask)
        ids, q, rows = self._frame.run(
            (k, count, width), lambda: self._forward(k, count, width, choose, adapts)
        )
        assert ids is not None
        return ids, q, rows

    def _hide(self, mask: Tensor | None) -> None:
        """Bring the padding's mask to its place, where it is another than the last time."""
        columns = self.cache.columns
        moved = columns != self._shade.shape[-1]
        if moved:
            self._shade = self._shade.new_zeros(self._rows, 1, 1, columns)
        if moved or mask is not self._mask:
            self._shade.zero_()
            if mask is not None:
                self._shade[..., : mask.shape[-1]].copy_(mask[..., :columns])
            self._mask = mask

    def _forward(self, k: int, count: int, width: int, choose: Choose, adapts: bool) -> Outputs:
        frame, llama = self._frame, self._frame.llama
        start, tokens, lengths, draws = self._unpacked(k, count)
        x = llama.embed(tokens).repeat(self._rows, 1)
        columns = start + frame.count(count)
        positions = lengths.unsqueeze(1) - count + frame.count(count)
        shade = self._shade if self._rows > 1 else None
        chosen: list[Choice] = []
        for node in range(k):
            if chosen:
                x = llama.embed(chosen[-1].token.expand(self._rows))
                columns, positions = columns[-1:] + 1, positions[:, -1:] + 1
            x = llama.forward(x, frame.step(width, columns, positions, shade))
            last = x.view(self._rows, len(columns), -1)[:, -1]
            chosen.append(choose(last, self._blend, draws[node : node + 1]))
        ids = torch.cat([choice.token for choice in chosen])
        said = _stacked([choice.rows for choice in chosen]) if adapts else None
        return ids, _stacked([choice.q for choice in chosen]), said

    def _unpacked(self, k: int, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Start [1], tokens [p] and lengths [R] as integers, and draws [k]: all that was sent."""
        sizes = [1, count, self._rows, k]
        start, tokens, lengths, draws = torch.split(self._numbers[: sum(sizes)], sizes)
        return start.long(), tokens.long(), lengths.long(), draws


def _stacked(parts: Sequence[Tensor | None]) -> Tensor | None:
    there = [part for part in parts if part is not None]
    return torch.stack(there) if there else None
