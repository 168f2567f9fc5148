"""`--gamma auto` on simulated machines: never slower than plain, and near the best fixed choice."""

import csv
from itertools import product
from pathlib import Path

import pytest
from simulate import ACCEPTANCES, TOKENS, Fixed, answer_cost, simulated

from mmspec.decoding.draft import Plan
from mmspec.decoding.tree import width_for
from mmspec.draft_length.rank_model import surest_paths
from support.simulated_machine import MACHINES, SECOND

M4, M3, FLAT, STEEPENING = MACHINES
TABLE = Path(__file__).parents[2] / "docs" / "results" / "simulated.csv"


def fixed(machine, acceptance, gamma, nodes=None, tokens=120, seed=0):
    policy = Fixed(Plan(gamma, nodes or gamma))
    return answer_cost(machine, acceptance, tokens, policy, seed)


@pytest.mark.parametrize("acceptance", [0.2, 0.9])
def test_a_tree_accepts_what_its_nodes_promise(acceptance):
    """Every node of the tree is accepted as often as its path is the right one."""
    chances = (chance for chance, _ in surest_paths(acceptance, 32, 4, SECOND))
    round_cost = 1 + 4 * FLAT.drafted_level(width_for(32), 64)
    costs = [fixed(FLAT, acceptance, 4, 32, tokens=2000, seed=seed) for seed in range(5)]
    assert sum(costs) / 5 == pytest.approx(2000 / (1 + sum(chances)) * round_cost, rel=0.03)


def best_choices():
    """The best fixed choice of every cell in the docs' table, in the order of its cells."""
    with TABLE.open(encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    return [text.partition(":")[0] for row in rows for text in row[2:]]


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_auto_is_never_slower_than_allowed_and_mostly_near_the_best_choice(every):
    """With few answers in each cell: `python tests/simulate.py` has more, and all fixed choices."""
    choices = [*zip(product(MACHINES, ACCEPTANCES, TOKENS), best_choices(), strict=True)]
    cells = [simulated(*which, 2, {"plain", best}) for which, best in choices[::every]]
    assert [cell for cell in cells if max(cell.auto, cell.calibrated) > 1.03] == []
    assert len([cell for cell in cells if cell.misses_best]) <= 4 // every
