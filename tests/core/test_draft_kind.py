"""What is expected of chains and trees after rounds that gained more or less than predicted."""

import pytest

from mmspec.decoding.acceptance import FirstChoices
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


def test_longer_chains_are_the_less_certain_the_fewer_tokens_were_judged():
    """After drafts of one token a second one is uncertain; after drafts of two it is not."""
    few, many = Acceptance(), Acceptance()
    for turn in range(40):
        few.observe(Round([0, 0], 1, 1, 1))
        many.observe(Round([0] * (2 + turn % 2), 2, 2, 1 + turn % 2))
    assert few.spread(2, 1) > 2 * many.spread(2, 1) > 0
    assert few.spread(1, 2) == few.spread(2, 2) == few.spread(2, 0) == 0


def test_a_tree_says_of_chains_what_its_first_choices_were():
    """Nine of ten trees accept a second choice: no chain would have had it."""
    trees, chains = Acceptance(), Acceptance()
    for turn in range(60):
        first = int(turn % 10 == 0)
        verdict = FirstChoices(first, 1 + first)
        trees.observe(Round([0, 0], 8, 2, 1, first_choices=verdict))
        chains.observe(Round([0] * (1 + first), 2, 2, first))
    assert trees.expected_tokens() == chains.expected_tokens()
