"""The speed of a machine and the costs of drafts, estimated together."""

import random
from math import log

import numpy as np
import pytest

from mmspec.draft_length import round_times
from mmspec.draft_length.round_times import (
    CALIBRATED,
    COMMON,
    NOISE,
    OWN,
    PLAIN,
    WANDER,
    RoundTimes,
)

ONE, OTHER = 2, 3
"""Places of the first two drafts."""


def after(rounds, drafts=2):
    """Estimates after rounds of (place, seconds)."""
    times = RoundTimes()
    for _ in range(drafts):
        times.add(is_calibrated=False)
    for place, seconds in rounds:
        times.observe(place, seconds)
    return times


def test_a_machine_that_slows_down_makes_no_draft_dearer():
    """One draft is measured while the machine is fast, the other while it is slow."""
    fast = [(PLAIN, 1.0)] * 4 + [(ONE, 2.0)] * 20
    slow = [(ONE, 3.0)] * 20 + [(OTHER, 3.6)] * 20
    times = after(fast + slow)
    assert times.estimate(OTHER) / times.estimate(ONE) == pytest.approx(1.2, rel=0.02)
    assert times.estimate(PLAIN) * times.estimate(ONE) == pytest.approx(3.0, rel=0.05)


def test_a_plain_round_decides_whether_the_machine_or_the_draft_is_slow():
    rounds = [(PLAIN, 1.0)] * 8 + [(ONE, 2.0)] * 8 + [(ONE, 2.9)] * 8
    times = after(rounds)
    assert times.in_doubt
    for _ in range(6):
        times.observe(PLAIN, 1.0)
        times.observe(ONE, 2.9)
    assert not times.in_doubt
    assert times.estimate(ONE) == pytest.approx(2.9, rel=0.1)


def test_a_round_that_another_program_slows_down_changes_little():
    rounds = [(PLAIN, 1.0)] * 4 + [(ONE, 2.0)] * 20
    before, disturbed = after(rounds), after([*rounds, (ONE, 50.0), (ONE, 2.0), (ONE, 2.0)])
    assert disturbed.estimate(ONE) == pytest.approx(before.estimate(ONE), rel=0.15)


def test_a_slow_first_round_is_outlived_at_once():
    """A calibrated draft after it takes what it should; that it is cheap is not believed."""
    times = RoundTimes()
    place = times.add(is_calibrated=True)
    times.observe(PLAIN, 4.0)
    times.observe(place, 1.0)
    assert times.estimate(PLAIN) == pytest.approx(1.0, rel=0.5)
    assert times.estimate(place) == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize("is_calibrated", [True, False])
def test_disturbed_plain_rounds_are_in_doubt_once_a_draft_is_fast(is_calibrated):
    times = RoundTimes()
    place = times.add(is_calibrated=is_calibrated)
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
    usual = [(PLAIN, 1.0), (ONE, 2.0)] * 4
    before, after_it = after(usual), after([*usual, (PLAIN, 4.0), (PLAIN, 1.0)])
    assert after_it.estimate(ONE) == pytest.approx(before.estimate(ONE), rel=0.05)


def test_a_draft_much_cheaper_than_calibrated_is_believed():
    times = RoundTimes()
    place = times.add(is_calibrated=True)
    for _ in range(8):
        times.observe(PLAIN, 1.0)
    times.observe(place, 0.1)
    times.observe(PLAIN, 1.0)
    assert times.estimate(place) == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize(("slow", "low", "high"), [(1, 0.99, 1.01), (2, 4.0, 5.0)])
def test_a_draft_much_dearer_than_calibrated_is_believed_at_its_second_round(slow, low, high):
    times = RoundTimes()
    place = times.add(is_calibrated=True)
    for seconds in [1.0] * 8:
        times.observe(PLAIN, seconds)
    for _ in range(slow):
        times.observe(place, 5.0)
    assert low < times.estimate(place) < high


def test_one_slow_draft_leaves_the_costs_of_all_as_they_are():
    """Another program may run in any round, also in the first that is drafted."""
    times = RoundTimes()
    place, other = (times.add(is_calibrated=True) for _ in range(2))
    times.observe(PLAIN, 1.0)
    times.observe(place, 4.0)
    assert times.waits
    for _ in range(3):
        times.observe(other, 1.0)
        assert not times.waits
    assert times.estimate(place) == pytest.approx(1.0, rel=0.02)
    times.observe(place, 4.0)  # slow again, so that both count
    assert times.estimate(place) > 1.5 > 1.2 > times.estimate(other)


def test_after_the_speed_is_forgotten_the_next_round_gives_it():
    times = after([(PLAIN, 1.0)] * 4 + [(ONE, 2.0)] * 20)
    times.forget_speed()
    times.observe(ONE, 20.0)
    assert times.estimate(PLAIN) == pytest.approx(10.0, rel=0.02)
    assert times.estimate(ONE) == pytest.approx(2.0, rel=0.02)


def test_a_round_after_one_of_another_length_counts_less():
    first = after([(PLAIN, 1.0), (ONE, 2.0)] * 8)
    again = after([(PLAIN, 1.0), (ONE, 2.0)] * 8)
    for _ in range(4):
        first.observe(ONE, 2.6, repeats=False)
        again.observe(ONE, 2.6)
    assert 2.0 < first.estimate(ONE) < again.estimate(ONE) - 0.02


def test_one_calibrated_draft_tells_of_the_others():
    times = RoundTimes()
    one, other, uncalibrated = (times.add(is_calibrated=known) for known in (True, True, False))
    for _ in range(9):
        times.observe(PLAIN, 1.0)
        times.observe(one, 1.4)
    assert 1.2 < times.estimate(other) < times.estimate(one)
    assert times.estimate(other) == pytest.approx(times.estimate(CALIBRATED))
    assert times.estimate(uncalibrated) == 1.0


def test_without_surprises_it_is_the_exact_posterior(monkeypatch):
    """The mean and covariance of a Gaussian process, solved whole by numpy."""
    monkeypatch.setattr(round_times, "FIRST", 0.0)
    dice = random.Random(0)
    places = [dice.choice([PLAIN, PLAIN, ONE, ONE, OTHER]) for _ in range(12)]
    repeats = [dice.random() < 0.5 for _ in places]
    logs = np.array([0.5 + 0.3 * (place > 0) + dice.gauss(0, 0.05) for place in places])
    times = RoundTimes()
    for _ in range(2):
        times.add(is_calibrated=True)
    for place, again, each in zip(places, repeats, logs, strict=True):
        times.observe(place, float(np.exp(each)), repeats=again)

    def prior(one, other):
        return (one != PLAIN) * (other != PLAIN) * (COMMON**2 + OWN**2 * (one == other))

    steps = np.arange(1, len(places) + 1)
    speed = round_times.UNKNOWN**2 + WANDER**2 * np.minimum.outer(steps, steps)
    drafts = np.array([[prior(one, other) for other in places] for one in places])
    changed = [(place != PLAIN) * (not again) for place, again in zip(places, repeats, strict=True)]
    observed = speed + drafts + np.diag(NOISE**2 + round_times.CHANGE**2 * np.array(changed))
    last = round_times.UNKNOWN**2 + WANDER**2 * steps
    for place in (PLAIN, ONE, OTHER):
        of_place = np.array([prior(place, other) for other in places])
        expected = (of_place if place else last) @ np.linalg.solve(observed, logs)
        assert log(times.estimate(place)) == pytest.approx(expected, abs=1e-6)
