"""Costs of rounds by draft length, from rounds and from a calibration."""

import pytest

from mmspec.draft_length.round_costs import RoundCosts


def observed(costs, gamma, *seconds):
    for each in seconds:
        costs.observe(gamma, each)


def test_costs_lie_on_lines_between_medians():
    costs = RoundCosts({})
    observed(costs, 0, 2, 2, 18)
    observed(costs, 4, 6, 6, 6, 100)
    assert [costs.steps[gamma] for gamma in (0, 1, 2, 4, 6)] == [1, 1.5, 2, 3, 4]


def test_beside_plain_rounds_alone_a_draft_is_as_dear_as_plain_decoding():
    costs = RoundCosts({})
    observed(costs, 0, 3.0)
    assert costs.steps == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_first_round_far_slower_than_plain_decoding_is_left_out_once():
    costs = RoundCosts({})
    observed(costs, 0, 1.0)
    assert costs.observe(1, 4.1) is None
    assert costs.lengths == []
    assert costs.observe(1, 4.1) == pytest.approx(4.1)
    assert costs.lengths == [1]


def test_a_disturbed_round_is_charged_no_more_than_twice_the_median():
    costs = RoundCosts({})
    observed(costs, 0, 1.0)
    observed(costs, 4, 2.0, 2.0, 2.0)
    assert costs.observe(4, 50.0) == 4.0


def test_calibrated_costs_are_scaled_to_the_plain_rounds_of_today():
    costs = RoundCosts({0: 0.1, 4: 0.2})
    observed(costs, 0, 5.0)
    assert costs.steps[4] == pytest.approx(2.0)
    assert costs.lengths == [4]


def test_one_cost_far_off_drops_the_calibration():
    costs = RoundCosts({0: 1.0, 2: 1.2, 4: 1.4, 8: 1.8})
    observed(costs, 0, 1.0)
    observed(costs, 4, 1.3, 2.3)
    assert [costs.steps[gamma] for gamma in (2, 4, 8)] == [1.2, 1.4, 1.8]
    observed(costs, 8, 9.0)
    assert costs.steps[8] == 1.8
    observed(costs, 8, 9.0)
    assert costs.lengths == [4, 8]
    assert [costs.steps[gamma] for gamma in (2, 4, 8)] == [1.15, 1.3, 9.0]
