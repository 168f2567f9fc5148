"""The speed of a machine and the costs of drafts, estimated together."""

import random
from math import log

import numpy as np
import pytest

from mmspec.draft_length import round_times
from mmspec.draft_length.round_times import NOISE, PLAIN, UNKNOWN, WANDER, RoundTimes


def after(rounds, drafts=2):
    """Estimates after rounds of (place, seconds)."""
    times = RoundTimes()
    for _ in range(drafts):
        times.add(10.0)
    for place, seconds in rounds:
        times.observe(place, seconds)
    return times


def test_a_machine_that_slows_down_makes_no_draft_dearer():
    """One draft is measured while the machine is fast, the other while it is slow."""
    fast = [(PLAIN, 1.0)] * 4 + [(1, 2.0)] * 20
    slow = [(1, 3.0)] * 20 + [(2, 3.6)] * 20
    times = after(fast + slow)
    assert times.estimate(2) / times.estimate(1) == pytest.approx(1.2, rel=0.02)
    assert times.estimate(PLAIN) * times.estimate(1) == pytest.approx(3.0, rel=0.05)


def test_a_plain_round_decides_whether_the_machine_or_the_draft_is_slow():
    rounds = [(PLAIN, 1.0)] * 8 + [(1, 2.0)] * 8 + [(1, 2.9)] * 8
    times = after(rounds)
    assert times.in_doubt
    for _ in range(6):
        times.observe(PLAIN, 1.0)
        times.observe(1, 2.9)
    assert not times.in_doubt
    assert times.estimate(1) == pytest.approx(2.9, rel=0.1)


def test_a_round_that_another_program_slows_down_changes_little():
    rounds = [(PLAIN, 1.0)] * 4 + [(1, 2.0)] * 20
    before, disturbed = after(rounds), after([*rounds, (1, 50.0), (1, 2.0), (1, 2.0)])
    assert disturbed.estimate(1) == pytest.approx(before.estimate(1), rel=0.15)


def test_a_slow_first_round_is_outlived_at_once():
    """A calibrated draft after it takes what it should; that it is cheap is not believed."""
    times = RoundTimes()
    place = times.add(0.3)
    times.observe(PLAIN, 4.0)
    times.observe(place, 1.0)
    assert times.estimate(PLAIN) == pytest.approx(1.0, rel=0.5)
    assert times.estimate(place) == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize("spread", [0.3, UNKNOWN])
def test_disturbed_plain_rounds_are_in_doubt_once_a_draft_is_fast(spread):
    times = RoundTimes()
    place = times.add(spread)
    for seconds in [1.0] * 20 + [4.0, 4.0]:
        times.observe(PLAIN, seconds)
    for _ in range(2):
        times.observe(place, 1.2)
        assert times.in_doubt
    times.observe(PLAIN, 1.0)
    assert not times.in_doubt
    assert times.estimate(PLAIN) == pytest.approx(1.0, rel=0.1)
    assert times.estimate(place) == pytest.approx(1.2, rel=0.1)


def test_one_disturbed_plain_round_leaves_the_costs_of_drafts_as_they_are():
    usual = [(PLAIN, 1.0), (1, 2.0)] * 4
    before, after_it = after(usual), after([*usual, (PLAIN, 4.0), (PLAIN, 1.0)])
    assert after_it.estimate(1) == pytest.approx(before.estimate(1), rel=0.05)


def test_a_draft_much_cheaper_than_calibrated_is_believed():
    times = RoundTimes()
    place = times.add(0.3)
    for _ in range(8):
        times.observe(PLAIN, 1.0)
    times.observe(place, 0.1)
    times.observe(PLAIN, 1.0)
    assert times.estimate(place) == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize(("slow", "low", "high"), [(1, 1.8, 2.2), (2, 4.0, 5.0)])
def test_a_draft_much_dearer_than_calibrated_is_believed_at_its_second_round(slow, low, high):
    times = RoundTimes()
    place = times.add(0.3)
    for seconds in [1.0] * 8:
        times.observe(PLAIN, seconds)
    for _ in range(slow):
        times.observe(place, 5.0)
    assert low < times.estimate(place) < high


def test_after_the_speed_is_forgotten_the_next_round_gives_it():
    times = after([(PLAIN, 1.0)] * 4 + [(1, 2.0)] * 20)
    times.forget_speed()
    times.observe(1, 20.0)
    assert times.estimate(PLAIN) == pytest.approx(10.0, rel=0.02)
    assert times.estimate(1) == pytest.approx(2.0, rel=0.02)


def test_without_surprises_it_is_the_exact_posterior(monkeypatch):
    """The mean and covariance of a Gaussian process, solved whole by numpy."""
    monkeypatch.setattr(round_times, "FIRST", 0.0)
    dice, spread = random.Random(0), 0.4
    places = [dice.choice([0, 0, 1, 1, 2]) for _ in range(12)]
    logs = np.array([0.5 + 0.3 * (place > 0) + dice.gauss(0, 0.05) for place in places])
    times = RoundTimes()
    for _ in range(2):
        times.add(spread)
    for place, each in zip(places, logs, strict=True):
        times.observe(place, float(np.exp(each)))
    steps = np.arange(1, len(places) + 1)
    speed = round_times.UNKNOWN**2 + WANDER**2 * np.minimum.outer(steps, steps)
    drafts = spread**2 * np.array([[p == q != PLAIN for q in places] for p in places])
    observed = speed + drafts + NOISE**2 * np.eye(len(places))
    last = round_times.UNKNOWN**2 + WANDER**2 * steps
    for place in (PLAIN, 1, 2):
        shared = last if place == PLAIN else spread**2 * (np.array(places) == place)
        expected = shared @ np.linalg.solve(observed, logs)
        assert log(times.estimate(place)) == pytest.approx(expected, abs=1e-6)
