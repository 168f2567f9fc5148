"""What all branches say together, against numpy."""

import numpy as np
import pytest
import torch

from mmspec_torch.sequence.ensemble import Ensemble


class Head:
    """Stands for a decoder whose outputs are logits already."""

    def __init__(self, vocabulary):
        self.config = type("Config", (), {"vocab_size": vocabulary})

    def logits(self, last):
        return last


LOGITS = torch.tensor([[0.0, 2.0, 1.0, 9.0], [3.0, 0.0, 2.7, 9.0]])
BLEND = torch.tensor([0.25, 0.75])


def averaged(logits, blend):
    powers = np.exp(logits.double().numpy())
    return blend @ (powers / powers.sum(-1, keepdims=True))


def test_branches_are_averaged_over_the_tokens_of_both():
    record = []
    together = averaged(LOGITS[:, :3], np.array([0.25, 0.75]))
    mixed = Ensemble(Head(4), 2, 3).logits(BLEND, record, LOGITS)
    np.testing.assert_allclose(mixed.exp().numpy(), together[None], rtol=1e-6)
    np.testing.assert_allclose((BLEND @ record[0]).numpy(), together, rtol=1e-6)


def test_a_branch_alone_says_its_own_logits():
    record = []
    alone = Ensemble(Head(4), 1, 3).logits(torch.ones(1), record, LOGITS[:1])
    assert (alone.tolist(), record) == (LOGITS[:1, :3].tolist(), [])


def test_nodes_of_a_level_are_mixed_each_with_its_own():
    last = torch.stack([LOGITS[0], LOGITS[1], LOGITS[1], LOGITS[0]])  # two rows of two nodes
    mixed = Ensemble(Head(4), 2, 4).logits(BLEND, [], last)
    expected = [averaged(LOGITS, np.array(w)) for w in ([0.25, 0.75], [0.75, 0.25])]
    np.testing.assert_allclose(mixed.exp().numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("vocabulary", [3, 4, 6])
def test_distributions_are_as_long_as_the_targets_vocabulary(vocabulary):
    ensemble, record = Ensemble(Head(4), 2, vocabulary), []
    ensemble.logits(BLEND, record, LOGITS)
    padded = ensemble.padded(record[0])
    assert padded.shape == (2, vocabulary)
    assert padded.sum(-1).tolist() == pytest.approx([1, 1])
