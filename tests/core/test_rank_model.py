"""What a tree gains by the rank model, against every node counted one by one."""

from itertools import product

import pytest

from mmspec.draft_length.rank_model import surest_paths


def chance(path, acceptance, second):
    """Probability that the ranks along a path are those of the right tokens."""
    result, second = 1.0, min(second, acceptance)
    for rank in path:
        missed = (1 - acceptance) * second * (1 - second) ** (rank - 1)
        result *= missed if rank else acceptance
    return result


@pytest.mark.parametrize("acceptance", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("nodes", "depth"), [(1, 1), (5, 2), (12, 3), (20, 4)])
def test_the_likeliest_nodes_of_all_are_in_the_tree(acceptance, nodes, depth):
    ranks = range(nodes)
    everything = [
        chance(path, acceptance, 0.45)
        for length in range(1, depth + 1)
        for path in product(ranks if length < 3 else range(4), repeat=length)
    ]
    paths = surest_paths(acceptance, nodes, depth)
    assert [each for each, _ in paths] == pytest.approx(sorted(everything)[: -nodes - 1 : -1])
    assert all(each == pytest.approx(chance(path, acceptance, 0.45)) for each, path in paths)
