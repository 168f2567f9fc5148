"""On-policy batches: the draft continues an answer, and the target judges the continuation.

This follows DistillSpec (Zhou et al. 2024, section 4), which trains a draft on text of its own.
Here a sequence is cut at a random start of its answer and continued with the draft's greedy chain.

Shape letters: B sequences, k drafted tokens.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mmspec_train.distillation.draft_starts import all_starts
from mmspec_train.teacher.batch import TeacherBatch
from mmspec_train.teacher.records import IGNORED
from mmspec_train.teacher.teacher import Teacher


def random_starts(batch: TeacherBatch) -> Tensor:
    """Return one start [B, 1] of each sequence, drawn uniformly."""
    starts = all_starts(batch, 1)
    weights = starts.alive[0].float() + 1e-9
    return starts.columns.gather(1, weights.multinomial(1))


def continued(
    batch: TeacherBatch, columns: Sequence[int], drafted: Tensor, teacher: Teacher
) -> TeacherBatch:
    """Return the sequences cut after `columns` and continued with drafted tokens [B, k].

    The hidden states are zeros; the targets only mark which columns are learned.
    """
    rows, k = drafted.shape
    lengths = tuple(column + 1 + k for column in columns)
    ids = batch.ids.new_zeros(rows, max(lengths))
    embeddings = batch.embeddings.new_zeros(rows, max(lengths), batch.embeddings.shape[-1])
    deepstack = batch.deepstack.new_zeros(*ids.shape, batch.deepstack.shape[-1])
    positions = batch.positions.new_zeros(rows, 3, max(lengths))
    steps = torch.arange(1, k + 1, device=ids.device)
    targets = torch.full_like(ids, IGNORED)
    images = []
    for row, column in enumerate(columns):
        ids[row, : column + 1] = batch.ids[row, : column + 1]
        ids[row, column + 1 : lengths[row]] = drafted[row]
        embeddings[row, : column + 1] = batch.embeddings[row, : column + 1]
        embeddings[row, column + 1 : lengths[row]] = teacher.embed(drafted[row]).float()
        deepstack[row, : column + 1] = batch.deepstack[row, : column + 1]
        positions[row, :, : column + 1] = batch.positions[row, :, : column + 1]
        after = batch.positions[row, :, column, None] + steps
        positions[row, :, column + 1 : lengths[row]] = after
        targets[row, column : lengths[row]] = ids[row, column : lengths[row]]
        images.append(tuple(span for span in batch.images[row] if span[1] <= column + 1))
    tokens = ids, targets, tuple(images), lengths, positions
    states = torch.zeros_like(embeddings)
    captured = batch.captured.new_zeros(*ids.shape, batch.captured.shape[-1])
    return TeacherBatch(*tokens, states, embeddings, deepstack, captured)


def with_states(batch: TeacherBatch, teacher: Teacher) -> TeacherBatch:
    """A batch from `continued`, with the target's hidden states in place of the zeros."""
    with torch.autocast(batch.ids.device.type, enabled=False):
        states, captured = teacher.hidden_states(batch.embeddings, batch.deepstack, batch.positions)
        return replace(batch, states=states.float(), captured=captured.float())
