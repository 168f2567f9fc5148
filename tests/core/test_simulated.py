"""Draft lengths against the best fixed choice, on simulated machines."""

import csv
from itertools import product
from pathlib import Path

import pytest
from simulate import ACCEPTANCES, TOKENS, simulated

from mmspec.decoding.tree_estimates import surest_paths
from support.simulated_machine import MACHINES

TABLE = Path(__file__).parents[2] / "docs" / "results" / "simulated.csv"


def best_choices():
    """The best fixed choice of every cell in the docs' table, in the order of its cells."""
    with TABLE.open(encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    return [text.partition(":")[0] for row in rows for text in row[2:]]


@pytest.mark.parametrize(("every", "misses"), [(5, 1), pytest.param(1, 5, marks=pytest.mark.slow)])
def test_auto_is_never_slower_than_allowed_and_mostly_near_the_best_choice(every, misses):
    """With few answers in each cell: `python tests/simulate.py` has more, and all fixed choices."""
    choices = [*zip(product(MACHINES, ACCEPTANCES, TOKENS), best_choices(), strict=True)]
    cells = [simulated(*which, 2, {"plain", best}) for which, best in choices[::every]]
    assert [cell for cell in cells if max(cell.auto, cell.calibrated) > 1.03] == []
    assert len([cell for cell in cells if cell.misses_best]) <= misses


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
