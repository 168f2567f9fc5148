"""`--gamma auto` on simulated machines: never slower than plain, and near the best fixed choice."""

import pytest

from mmspec.decoding.draft import Plan
from mmspec.decoding.tree import width_for
from mmspec.draft_length.rank_model import surest_paths
from mmspec_bench.measure.simulated_machine import SECOND, Machine
from mmspec_bench.measure.simulation import MACHINES, Fixed, answer_cost, simulate

M4, M3, FLAT, STEEPENING = MACHINES


def quietly(_):
    """Show no progress."""


def fixed(machine, acceptance, gamma, nodes=None, tokens=120, seed=0):
    policy = Fixed(Plan(gamma, nodes or gamma))
    return answer_cost(machine, acceptance, tokens, policy, seed)


# The simulated machines


def test_plain_decoding_costs_a_plain_round_a_token():
    assert fixed(M3, 0.9, 0) == pytest.approx(120)


def test_a_round_costs_its_rows_and_its_drafted_tokens():
    """Always right: 120 tokens are 30 rounds of four, with three drafted tokens each."""
    assert fixed(M3, 1.0, 3) == pytest.approx(30 * (3.26 + 3 * 0.05))
    assert fixed(M3, 1e-9, 3) == pytest.approx(
        117 * (3.26 + 0.15) + 2.507 + 0.1 + 1.7533 + 0.05 + 1, abs=0.01
    )


def test_a_fixed_length_accepts_what_the_probability_says():
    """E(3) at acceptance 0.8 is 2.952 tokens a round."""
    costs = [fixed(M4, 0.8, 3, tokens=2000, seed=seed) for seed in range(5)]
    assert sum(costs) / 5 == pytest.approx(2000 / 2.952 * (1.43 + 0.15), rel=0.03)


@pytest.mark.parametrize("acceptance", [0.2, 0.5, 0.9])
def test_a_tree_accepts_what_its_nodes_promise(acceptance):
    """Every node of the tree is accepted as often as its path is the right one."""
    chances = (chance for chance, _ in surest_paths(acceptance, 32, 4, SECOND))
    round_cost = 1 + 4 * FLAT.drafted_level(width_for(32), 64)
    costs = [fixed(FLAT, acceptance, 4, 32, tokens=2000, seed=seed) for seed in range(5)]
    assert sum(costs) / 5 == pytest.approx(2000 / (1 + sum(chances)) * round_cost, rel=0.03)


def test_rows_lie_on_lines_within_and_beyond_those_that_are_known():
    costs = [M3.verification(rows, 64) for rows in (1, 2, 4, 6, 8, 9)]
    assert costs == pytest.approx([1, 1.7533, 3.26, 4.69, 6.12, 6.835], abs=0.001)


def test_costs_follow_the_context():
    assert STEEPENING.verification(1, 8192) == 5 * STEEPENING.verification(1, 64)
    assert STEEPENING.calibration().round_costs(1, 8192)[7] == pytest.approx(29 + 7 * 0.25)


# Adaptive lengths


def holds(simulation):
    assert not simulation.slower
    assert 10 * len(simulation.misses) <= len(simulation.cells)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_auto_is_never_slower_and_near_the_best_choice(machine):
    """A part of the cells, of which few answers say less."""
    simulation = simulate(2, quietly, [machine], (0.2, 0.95), (32, 128))
    assert not simulation.slower
    assert all(cell.calibrated < 1.1 * cell.best for cell in simulation.cells)


@pytest.mark.slow
def test_auto_is_never_slower_and_near_the_best_choice_in_every_cell():
    holds(simulate(20, quietly))


def test_a_simulation_that_is_slower_or_misses_the_best_is_named():
    """A machine whose calibration is of another one: drafting is believed to cost nothing."""

    class Liar(Machine):
        def calibration(self):
            return FLAT.calibration()

    liar = Liar("liar", {64: {1: 1.0, 2: 9.0}}, {64: 5.0})
    simulation = simulate(1, quietly, [liar], (0.2,), (32,))
    assert [cell.machine for cell in simulation.slower] == ["liar"]
    assert [cell.machine for cell in simulation.misses] == ["liar"]
