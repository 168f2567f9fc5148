"""What heads learn from: sequences with what the target made of them, and where drafts begin.

Shape letters: B sequences, L columns (padded at their ends), H width, A starts, D depths.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mmspec.heads.outline import Span


@dataclass(frozen=True, slots=True)
class Lesson:
    """Sequences as the target has read them."""

    ids: Tensor
    """[B, L]"""
    learned: Tensor
    """[B, L] whether a token of an answer, or its end, comes after a column."""
    targets: Tensor
    """[B, L] the token that came after a learned column."""
    states: Tensor
    """[B, L, H] after the last norm: what the output matrix reads."""
    embeddings: Tensor
    """[B, L, H] images in their places."""
    images: tuple[tuple[Span, ...], ...]
    """Of each sequence."""
    lengths: tuple[int, ...]
    """Columns of each sequence, padding left out."""

    @property
    def visual(self) -> Tensor:
        """[B, L] whether a column is an image's."""
        found = torch.zeros(self.ids.shape, dtype=torch.bool)
        for row, spans in enumerate(self.images):
            for first, end in spans:
                found[row, first:end] = True
        return found.to(self.ids.device)

    def at(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Of [B, L, H] the columns [B, A] of each sequence, [B, A, H]."""
        return rows.gather(1, columns.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))


@dataclass(frozen=True, slots=True)
class Starts:
    """Columns after which a draft begins: the last token of a sequence in the making.

    The head knows the hidden states before such a column c and the token at c; its d-th guess,
    counted from 0, is of the token after column c + d.
    """

    columns: Tensor
    """[B, A]"""
    alive: Tensor
    """[D, B, A] whether the answer goes on so far, so that a guess can be judged."""

    @property
    def depth(self) -> int:
        """D."""
        return len(self.alive)

    def after(self, depth: int) -> Tensor:
        """Columns [B, A] at a depth; anything valid where not alive."""
        return torch.where(self.alive[depth], self.columns + depth, 0)


def starts(lesson: Lesson, depth: int) -> Starts:
    """Every column of a lesson that a draft of `depth` tokens may begin after."""
    begins = lesson.learned & ~lesson.visual
    begins[:, 0] = False
    count = max(1, int(begins.sum(dim=1).max()))
    columns = begins.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :count]
    return Starts(columns, _alive(lesson.learned, begins.gather(1, columns), columns, depth))


def chosen(lesson: Lesson, columns: Tensor, depth: int) -> Starts:
    """Starts [B, 1] at one column [B, 1] of each sequence, wherever its answer may end."""
    alive = torch.ones((depth, *columns.shape), dtype=torch.bool, device=lesson.ids.device)
    return Starts(columns, alive)


def _alive(learned: Tensor, begins: Tensor, columns: Tensor, depth: int) -> Tensor:
    alive = [begins]
    last = learned.shape[1] - 1
    for ahead in range(1, depth):
        there = columns + ahead
        goes_on = learned.gather(1, there.clamp(max=last)) & (there <= last)
        alive.append(alive[-1] & goes_on)
    return torch.stack(alive)
