"""What all branches say together, against numpy."""

import numpy as np
import pytest
import torch

from mmspec.sampling import GREEDY, Sampling
from mmspec_torch.mixture import Mixture


class Head:
    """Stands for a decoder whose outputs are logits already."""

    def __init__(self, vocabulary):
        self.config = type("Config", (), {"vocab_size": vocabulary})

    def logits(self, last):
        return last

    def best(self, last, among):
        return last[:, :among].argmax(-1)


LOGITS = torch.tensor([[0.0, 2.0, 1.0, 9.0], [3.0, 0.0, 2.7, 9.0]])
BLEND = torch.tensor([0.25, 0.75])


def averaged(logits, blend):
    powers = np.exp(logits.double().numpy())
    return blend @ (powers / powers.sum(-1, keepdims=True))


def test_branches_are_averaged_over_the_tokens_of_both():
    together = averaged(LOGITS[:, :3], np.array([0.25, 0.75]))
    mixture = Mixture(Head(4), GREEDY, 2, 3)
    choice = mixture.next(LOGITS, BLEND, None)
    assert choice.token.tolist() == [int(together.argmax())]
    assert choice.q is None
    np.testing.assert_allclose((BLEND @ choice.rows).numpy(), together, rtol=1e-6)
    assert mixture.next(LOGITS, torch.tensor([1.0, 0.0]), None).token.tolist() == [1]


def test_what_is_drawn_comes_with_what_it_was_drawn_from():
    mixture = Mixture(Head(4), Sampling(temperature=1.0), 2, 6)
    together = averaged(LOGITS, np.array([0.25, 0.75]))
    for draw in (0.001, 0.3, 0.5, 0.999):
        choice = mixture.next(LOGITS, BLEND, torch.tensor([draw]))
        np.testing.assert_allclose(choice.q.numpy(), together, rtol=1e-5)
        assert choice.token.tolist() == [int((np.cumsum(together) > draw).argmax())]


def test_nodes_of_a_level_are_mixed_each_with_its_own():
    last = torch.stack([LOGITS[0], LOGITS[1], LOGITS[1], LOGITS[0]])  # two rows of two nodes
    mixed = Mixture(Head(4), GREEDY, 2, 4).of_nodes(BLEND, last)
    expected = [averaged(LOGITS, np.array(w)) for w in ([0.25, 0.75], [0.75, 0.25])]
    np.testing.assert_allclose(mixed.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("vocabulary", [3, 4, 6])
def test_distributions_are_as_long_as_the_targets_vocabulary(vocabulary):
    mixture = Mixture(Head(4), Sampling(temperature=1.0), 1, vocabulary)
    one, two = (mixture.next(LOGITS[:1], torch.ones(1), torch.tensor([0.5])) for _ in range(2))
    stacked = mixture.stacked([one.q, two.q])
    assert stacked.shape == (2, vocabulary)
    assert stacked.sum(-1).tolist() == pytest.approx([1, 1])
    assert mixture.stacked([None, None]) is None
