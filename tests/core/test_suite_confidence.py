"""The bootstrap of differences, against cases that can be counted and truths that are known."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from mmspec_bench.suite.confidence import difference
from support.suite_row import row


def answers(method, counts):
    """A row for each sample's (tokens, rounds)."""
    return [
        row(f"t/{n}", method, [(0, 0, tokens - rounds + 1), *[(0, 0, 1)] * (rounds - 1)])
        for n, (tokens, rounds) in enumerate(counts)
    ]


def test_two_samples_have_three_resamples():
    # The first sample twice, both, or the second twice: 1/4, 1/2, 1/4.
    ours, theirs = answers("MT", [(6, 2), (4, 4)]), answers("M", [(4, 2), (8, 4)])
    found = difference(ours, theirs)
    assert (found.samples, found.value) == (2, pytest.approx((10 / 6) / (12 / 6) - 1))
    assert (found.low, found.high) == (pytest.approx(1 / 2 - 1), pytest.approx(3 / 2 - 1))


def test_one_image_has_no_interval():
    found = difference(answers("MT", [(6, 2)]), answers("M", [(4, 2)]))
    assert found == (1, pytest.approx(0.5), None, None)
    ours, theirs = (
        [replace(each, first_image="one") for each in answers(method, [(6, 2), (3, 3)])]
        for method in ("MT", "M")
    )
    assert difference(ours, theirs) == (2, 0.0, None, None)


def test_ends_are_the_percentiles_of_all_resamples():
    # Ten samples of two kinds: k of the first kind are drawn with the binomial's probability.
    kinds = [(6, 2)] * 5 + [(2, 2)] * 5
    found = difference(answers("MT", kinds), answers("M", [(4, 2)] * 10))
    shares = np.cumsum([comb(10, k) / 2**10 for k in range(11)])
    values = [(6 * k + 2 * (10 - k)) / 40 - 1 for k in range(11)]
    expected = [values[int(np.searchsorted(shares, each))] for each in (0.025, 0.975)]
    assert [found.low, found.high] == pytest.approx(expected)


def test_turns_of_a_sample_are_drawn_together_and_others_left_out():
    ours = answers("MT", [(6, 2), (4, 4)])
    split = [
        row("t/0", "M", [(0, 0, 3)]),
        row("t/0", "M", [(0, 0, 1)], turn=1),
        *answers("M", [(0, 1), (8, 4), (99, 9)])[1:],
        row("t/8", "M", []),
    ]
    assert difference(ours, split) == difference(ours, answers("M", [(4, 2), (8, 4)]))
    assert difference(ours, []) is None
