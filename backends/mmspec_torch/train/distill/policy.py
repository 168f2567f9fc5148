"""On-policy data: what the student would say is continued, and judged by the target.

After DistillSpec (Zhou et al. 2024, section 4): the student is trained where decoding leads it,
also off the target's own path. Here a sequence is cut at a random start of its answer and goes on
with the student's own greedy draft.

Shape letters: B sequences, L columns, k drafted tokens, H width.
"""

from dataclasses import replace

import torch
from torch import Tensor

from mmspec_torch.train.distill.loss import said
from mmspec_torch.train.distill.teacher import Teacher
from mmspec_torch.train.heads.build import Head
from mmspec_torch.train.heads.lesson import Lesson, chosen, starts


@torch.no_grad()
def strayed(lesson: Lesson, head: Head, teacher: Teacher, depth: int) -> Lesson:
    """Cut every answer somewhere, let the head draft on, and have the target read the result."""
    columns = cuts(lesson)
    drafted = drafts(lesson, head, teacher, columns, depth)
    return continued(lesson, columns.flatten().tolist(), drafted, teacher)


def cuts(lesson: Lesson) -> Tensor:
    """One start [B, 1] of each sequence, drawn evenly."""
    begun = starts(lesson, 1)
    weights = begun.alive[0].float() + 1e-9
    return begun.columns.gather(1, weights.multinomial(1))


def drafts(lesson: Lesson, head: Head, teacher: Teacher, columns: Tensor, depth: int) -> Tensor:
    """The head's greedy chain [B, k] after columns [B, 1]."""

    def follow(feature: Tensor) -> Tensor:
        return teacher.embed(said(feature, teacher.output).argmax(dim=-1)).float()

    features = head(lesson, chosen(lesson, columns, depth), follow)
    return said(features, teacher.output).argmax(dim=-1).squeeze(-1).T


def continued(lesson: Lesson, columns: list[int], drafted: Tensor, teacher: Teacher) -> Lesson:
    """The sequences up to `columns` with drafted tokens [B, k] behind them, read anew."""
    made = extended(lesson, columns, drafted, teacher)
    with torch.autocast(made.ids.device.type, enabled=False):
        return replace(made, states=teacher.states(made.embeddings).float())


def extended(lesson: Lesson, columns: list[int], drafted: Tensor, teacher: Teacher) -> Lesson:
    """As `continued`, its hidden states left at zero."""
    rows, k = drafted.shape
    lengths = tuple(column + 1 + k for column in columns)
    ids = lesson.ids.new_zeros(rows, max(lengths))
    embeddings = lesson.embeddings.new_zeros(rows, max(lengths), lesson.embeddings.shape[-1])
    learned = torch.zeros_like(ids, dtype=torch.bool)
    images = []
    for row, column in enumerate(columns):
        ids[row, : column + 1] = lesson.ids[row, : column + 1]
        ids[row, column + 1 : lengths[row]] = drafted[row]
        embeddings[row, : column + 1] = lesson.embeddings[row, : column + 1]
        embeddings[row, column + 1 : lengths[row]] = teacher.embed(drafted[row]).float()
        learned[row, column : lengths[row]] = True
        images.append(tuple(span for span in lesson.images[row] if span[1] <= column + 1))
    states = torch.zeros_like(embeddings)
    return Lesson(ids, learned, ids, states, embeddings, tuple(images), lengths)
