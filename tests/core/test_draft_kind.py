"""What is expected of chains and trees after rounds that gained more or less than predicted."""

import pytest

from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import Acceptance
from mmspec.draft_length.draft_kind import DraftKind
from mmspec.draft_length.rank_model import tree_tokens
from mmspec.draft_length.round_times import RoundTimes


def observed(nodes, accepted, rounds=60):
    """A kind after rounds of three levels."""
    kind, acceptance = DraftKind(RoundTimes(), nodes), Acceptance()
    kind.update(acceptance)
    for _ in range(rounds):
        kind.observe(Round([0] * (accepted + 1), nodes or 3, 3, accepted), acceptance)
        kind.update(acceptance)
    return kind, acceptance


@pytest.mark.parametrize("accepted", [0, 1, 2, 3])
def test_a_tree_is_expected_to_gain_what_trees_gained(accepted):
    kind, _ = observed(16, accepted)
    assert kind.expected[3] == pytest.approx(1 + accepted, abs=0.4)


def test_one_tree_says_little_of_others():
    _, acceptance = observed(16, 0, rounds=1)
    assert 0.7 < acceptance.tree_share < 0.9


def test_what_trees_of_one_size_gain_is_expected_of_others():
    _, acceptance = observed(16, 0)
    other = DraftKind(RoundTimes(), 32)
    other.update(acceptance)
    assert other.expected[3] - 1 < 0.5 * (tree_tokens(acceptance.mean, 32)[3] - 1)


def test_chains_are_learnt_by_position_alone():
    kind, acceptance = observed(0, 0)
    assert kind.expected == acceptance.expected_tokens()
    assert acceptance.tree_share == 1
