"""Costs of rounds by draft length, from rounds and from a calibration."""

import pytest

from mmspec.draft_length.round_costs import RoundCosts
from mmspec.draft_length.round_times import RoundTimes


def made(calibrated=None, plain=1.0):
    """Costs after a few plain rounds."""
    costs = RoundCosts(RoundTimes())
    costs.move(calibrated or {})
    observed(costs, 0, *[plain] * 20)
    return costs


def observed(costs, gamma, *seconds):
    charges = [costs.observe(gamma, each) for each in seconds]
    costs.update()
    return charges[-1]


def test_costs_lie_on_lines_between_measured_ones():
    costs = made()
    observed(costs, 4, 3, 3, 3)
    assert [costs.steps[g] for g in (0, 1, 2, 4, 6)] == pytest.approx([1, 1.5, 2, 3, 4], rel=0.01)
    observed(costs, 6, 2, 2, 2)
    never_falling = pytest.approx([3, 2.5, 2, 2], rel=0.01)
    assert [costs.steps[gamma] for gamma in (4, 5, 6, 8)] == never_falling


def test_before_any_draft_one_is_as_dear_as_plain_decoding():
    assert RoundCosts(RoundTimes()).steps == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_first_round_far_slower_than_plain_decoding_is_left_out_once():
    costs = made()
    assert observed(costs, 1, 4.1) is None
    assert costs.lengths == []
    assert observed(costs, 1, 4.1) == pytest.approx(4.1, rel=0.02)
    assert costs.lengths == [1]


def test_a_disturbed_round_is_charged_no_more_than_twice_the_usual():
    costs = made()
    observed(costs, 4, *[2.0] * 9)
    usual = costs.steps[4]
    assert 1.99 * usual < observed(costs, 4, 50.0) < 2.4 * usual
    assert costs.steps[4] < 1.2 * usual


def test_the_first_round_of_all_is_charged_as_calibrated():
    costs = RoundCosts(RoundTimes())
    costs.move({0: 0.1, 4: 0.2})
    assert observed(costs, 4, 3.5) == pytest.approx(2.0, rel=0.01)
    assert costs.steps[4] == pytest.approx(2.0, rel=0.01)


def test_a_slow_first_round_of_a_calibrated_length_says_nothing():
    costs = made({0: 1.0, 4: 1.5})
    assert observed(costs, 4, 2.7) == pytest.approx(1.5, rel=0.01)
    assert costs.steps[4] == pytest.approx(1.5, rel=0.01)
    assert observed(costs, 4, 2.7) > 2
    assert costs.steps[4] > 1.7


def test_calibrated_costs_are_in_plain_rounds():
    costs = made({0: 0.1, 4: 0.2}, plain=0.1)
    assert costs.steps[4] == pytest.approx(2.0)
    assert costs.lengths == [4]


def test_what_one_length_costs_corrects_the_others_by_most_of_it():
    calibrated = {0: 1.0, 2: 1.2, 4: 1.4, 8: 1.8}
    costs = made(calibrated)
    observed(costs, 4, *[2.8] * 5)
    assert costs.steps[4] == pytest.approx(2.8, rel=0.1)
    for gamma in (2, 8):
        assert 1.5 < costs.steps[gamma] / calibrated[gamma] < 1.85


def test_what_one_context_taught_corrects_the_others():
    """Measured twice as dear as calibrated at a short context, so at a long one too."""
    costs = made({0: 1.0, 4: 1.5})
    observed(costs, 4, *[3.0] * 9)
    costs.move({0: 4.0, 4: 12.0})
    assert costs.steps[4] == pytest.approx(6.0, rel=0.1)
