"""The columns where drafts begin in a batch, and how far each answer goes on from there.

Shape letters: B sequences, L columns, A starts, D depths, n learned columns.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mmspec_train.teacher.batch import TeacherBatch


@dataclass(frozen=True, slots=True)
class DraftStarts:
    """The columns after which drafts begin.

    At start c a head reads the hidden states before column c and the token at c. Its guess at
    depth d (from 0) is the token after column c + d.
    """

    columns: Tensor
    """[B, A] the column after which each draft begins."""
    alive: Tensor
    """[D, B, A] True where the answer reaches this depth, so that the guess can be judged."""

    @property
    def depth(self) -> int:
        """D, the number of depths that are judged."""
        return len(self.alive)

    def after(self, depth: int) -> Tensor:
        """The columns [B, A] that the drafts reach at `depth`; 0 where the answer has ended."""
        return torch.where(self.alive[depth], self.columns + depth, 0)

    def pick(self, values: Tensor, batch: TeacherBatch) -> Tensor:
        """Return those of the learned columns' values [n] that drafts reach, as [D, B, A]."""
        row = batch.learned_row
        rows = [row.gather(1, self.after(depth)) for depth in range(self.depth)]
        return values[torch.stack(rows).clamp(min=0)]


def all_starts(batch: TeacherBatch, depth: int) -> DraftStarts:
    """All starts in the answers of a batch, for drafts of `depth` tokens."""
    begins = batch.learned & ~batch.visual
    begins[:, 0] = False
    count = max(1, int(begins.sum(dim=1).max()))
    columns = begins.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :count]
    return DraftStarts(columns, _alive(batch.learned, begins.gather(1, columns), columns, depth))


def starts_at(columns: Tensor, depth: int) -> DraftStarts:
    """Return one start per sequence, at columns [B, 1], alive at every depth."""
    alive = torch.ones((depth, *columns.shape), dtype=torch.bool, device=columns.device)
    return DraftStarts(columns, alive)


def _alive(learned: Tensor, begins: Tensor, columns: Tensor, depth: int) -> Tensor:
    alive = [begins]
    last = learned.shape[1] - 1
    for distance in range(1, depth):
        later = columns + distance
        goes_on = learned.gather(1, later.clamp(max=last)) & (later <= last)
        alive.append(alive[-1] & goes_on)
    return torch.stack(alive)
