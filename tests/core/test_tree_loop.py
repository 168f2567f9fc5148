"""What decoding by trees alone has: levels, nodes and paths; `test_loop.py` holds the rest."""

import pytest
from test_loop import TREES, opened, rounds_of

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.sampling import Sampling


def test_with_the_target_as_its_own_draft_every_level_is_accepted():
    target, twin = opened(sampling=Sampling(1.0), other_seed=0, tree=TREES["static"])
    rounds = rounds_of(target, twin, gamma=3, max_tokens=40, seed=5)
    assert all(each.accepted == each.depth for each in rounds)


@pytest.mark.parametrize("path", [[1], [0, 2], [0, 0], [2, 3], [4], [-1], [3, 0]])
def test_what_is_no_path_is_refused(path):
    verdict = Verdict([5, 6, 7, 8], [-1, 0, -1, 0], [0] * 5)
    with pytest.raises(ValueError, match="no path"):
        verdict.along(path)
    assert verdict.along([0, 3]) == [5, 8]
    assert verdict.along([]) == []


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ([], (0, 1)),  # the root's first child was rejected
        ([0], (1, 2)),
        ([1], (0, 1)),  # the second child was accepted, where a chain had the first
        ([0, 2], (2, 2)),  # nothing was drafted after it
        ([0, 3], (1, 2)),
        ([1, 4], (0, 1)),
    ],
)
def test_of_a_tree_the_first_choices_are_what_a_chain_would_have_had(path, first):
    verdict = Verdict([5, 6, 7, 8, 9], [-1, -1, 0, 0, 1], [0] * 6)
    assert verdict.first_choices(path) == first
