"""Training block drafters: their anchors, their losses, and what they learn."""

import pytest
import torch
import torch.nn.functional as F

from mmspec_train.distillation.objective import (
    HeadOutput,
    all_starts,
    block_loss,
    drawn_starts,
)
from mmspec_train.settings import HeadShape
from support.teacher_data import held_out_batch

SHAPE = HeadShape(3, layers=1, markov_rank=8)


def test_anchors_are_drawn_from_what_is_learned(data):
    _, batch = held_out_batch(data)
    every = all_starts(batch, 4)
    torch.manual_seed(0)
    drawn = [drawn_starts(every, 5) for _ in range(3)]
    known = every.columns[0].tolist()
    for starts in drawn:
        columns = starts.columns[0].tolist()
        assert columns == sorted({*columns})
        for place, column in enumerate(columns):
            alive = every.alive[:, 0, known.index(column)]
            assert torch.equal(starts.alive[:, 0, place], alive)
    assert len({tuple(starts.columns[0].tolist()) for starts in drawn}) > 1
    assert torch.equal(drawn_starts(every, 10**6).columns, every.columns)


@pytest.mark.parametrize("kind", ["dflash", "dspark"])
def test_the_loss_is_the_published_one(data, kind):
    """Row by row in numpy: weights decay^k divided by their sum over all live guesses."""
    _, batch = held_out_batch(data)
    batch, starts = data.teacher.read(batch), drawn_starts(all_starts(batch, 3), 6)
    matrix = data.teacher.output_matrix
    features = torch.randn(3, 1, 6, matrix.shape[1], generator=torch.Generator().manual_seed(1))
    odds = (lambda live: live[:, 0]) if kind == "dspark" else None
    output = HeadOutput(matrix, lambda live: F.linear(live, matrix).log_softmax(-1))
    ours = block_loss(features, batch, starts, output, kind, 0.8, odds)
    total = weights = 0.0
    for depth, _, start in starts.alive.nonzero().tolist():
        column = int(starts.columns[0, start]) + depth
        feature = features[depth, 0, start].double()
        q = F.linear(feature, matrix.double()).softmax(-1)
        p = F.linear(batch.states[0, column].double(), matrix.double()).softmax(-1)
        surprise = -q[batch.targets[0, column]].log()
        loss = surprise if kind == "dflash" else 0.1 * surprise + 0.9 * (p - q).abs().sum()
        if odds:
            accepted, sure = torch.minimum(p, q).sum(), feature[0].sigmoid()
            loss = loss - accepted * sure.log() - (1 - accepted) * (1 - sure).log()
        total, weights = total + 0.8**depth * float(loss), weights + 0.8**depth
    assert ours.item() == pytest.approx(total / weights, rel=1e-4)
