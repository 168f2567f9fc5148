"""Costs of rounds by draft length, from rounds and from a calibration."""

import pytest

from mmspec.draft_length.round_costs import PlainCost, RoundCosts


def observed(costs, gamma, *steps):
    for each in steps:
        costs.observe(gamma, each)


def calibrated(seconds):
    costs = RoundCosts()
    costs.move(seconds)
    return costs


# Drafted rounds


def test_costs_lie_on_lines_between_medians():
    costs = RoundCosts()
    observed(costs, 4, 3, 3, 3, 50)
    assert [costs.steps[gamma] for gamma in (0, 1, 2, 4, 6)] == [1, 1.5, 2, 3, 4]
    observed(costs, 6, 2)
    assert [costs.steps[gamma] for gamma in (4, 5, 6, 8)] == [
        3,
        2.5,
        2,
        2,
    ]  # never falls at the end


def test_before_any_draft_one_is_as_dear_as_plain_decoding():
    assert RoundCosts().steps == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_first_round_far_slower_than_plain_decoding_is_left_out_once():
    costs = RoundCosts()
    assert costs.observe(1, 4.1) is None
    assert costs.lengths == []
    assert costs.observe(1, 4.1) == pytest.approx(4.1)
    assert costs.lengths == [1]


def test_a_disturbed_round_is_charged_no_more_than_twice_the_median():
    costs = RoundCosts()
    observed(costs, 4, 2.0, 2.0, 2.0)
    assert costs.observe(4, 50.0) == 4.0


def test_the_first_round_of_all_is_charged_as_calibrated():
    costs = calibrated({0: 0.1, 4: 0.2})
    assert costs.observe(4, 3.5) == pytest.approx(2.0)
    assert costs.observe(4, 3.5) == pytest.approx(3.5)


def test_calibrated_costs_are_in_plain_rounds():
    costs = calibrated({0: 0.1, 4: 0.2})
    assert costs.steps[4] == pytest.approx(2.0)
    assert costs.lengths == [4]


def test_a_measured_length_corrects_those_beside_it():
    costs = calibrated({0: 1.0, 2: 1.2, 4: 1.4, 8: 1.8})
    observed(costs, 4, 2.8)
    assert costs.steps[4] == 1.4  # one round weighs as much as the calibration
    observed(costs, 4, 2.8)
    assert [costs.steps[g] for g in (2, 4, 8)] == pytest.approx([1.2 * 1.5, 2.8, 3.6])


def test_what_one_context_taught_corrects_the_others():
    """Measured twice as dear as calibrated at a short context, so at a long one too."""
    costs = calibrated({0: 1.0, 4: 1.5})
    observed(costs, 4, 3.0, 3.0)
    costs.move({0: 4.0, 4: 12.0})
    assert costs.steps[4] == pytest.approx(6.0)
    observed(costs, 4, *[3.0] * 9)
    costs.move({0: 1.0, 4: 1.5})
    assert costs.steps[4] == pytest.approx(1.5)


@pytest.mark.parametrize(("steps", "doubt"), [(1.4, False), (1.8, False), (1.9, True), (1.1, True)])
def test_a_cost_unlike_the_calibrated_one_is_doubted(steps, doubt):
    costs = calibrated({0: 1.0, 2: 1.2, 4: 1.5})
    observed(costs, 4, steps)
    assert costs.in_doubt == doubt


# Plain rounds


def test_calibrated_seconds_of_plain_rounds_are_scaled_to_those_of_today():
    plain = PlainCost()
    plain.move(100, 2.0)
    assert plain.seconds == 2.0
    plain.observe(3.0)
    assert plain.seconds == 2.0  # one round may be slow for its own reasons
    plain.observe(3.0)
    plain.move(5000, 10.0)
    assert plain.seconds == 15.0
    assert plain.rounds == 2


def test_without_a_calibration_plain_rounds_are_measured_again_in_another_context():
    plain = PlainCost()
    plain.move(100, None)
    plain.observe(3.0)
    plain.move(400, None)
    assert (plain.rounds, plain.seconds) == (1, 3.0)
    plain.move(600, None)
    assert plain.rounds == 0
    plain.observe(5.0)
    plain.move(100, None)
    assert plain.rounds == 0
