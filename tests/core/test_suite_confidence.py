"""The bootstrap of differences, against cases that can be counted and truths that are known."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from mmspec_bench.suite.confidence import difference, tokens_per_round
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


def test_tokens_per_round_are_resampled_as_differences_are():
    # Beside a method of one token a round, tokens per round are the difference and one.
    rows = answers("MT", [(6, 2), (2, 2), (9, 3), (3, 1), (8, 2)])
    ones = answers("none", [(1, 1)] * 5)
    found, other = tokens_per_round(rows), difference(rows, ones)
    assert found == pytest.approx((5, 1 + other.value, 1 + other.low, 1 + other.high))
    assert tokens_per_round([]) == (0, 0, None, None)


def test_a_method_differs_from_itself_by_nothing():
    one = answers("M", [(9, 3), (5, 4), (20, 6)])
    found = difference(one, one)
    assert (found.value, found.low, found.high) == (0, 0, 0)


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


def test_the_same_seed_gives_the_same_interval():
    draws = np.random.default_rng(3)
    ours, theirs = ([(int(n) + 4, 4) for n in draws.integers(0, 9, 30)] for _ in range(2))
    pair = answers("MT", ours), answers("M", theirs)
    once = difference(*pair, draws=500)
    assert difference(*pair, draws=500) == once
    assert difference(*pair, draws=500, seed=1) != once


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    """Correlated methods, 40 samples, a true difference of 10 %: 95 % of 400 intervals hold it."""
    draws, held, tries = np.random.default_rng(0), 0, 400
    for _ in range(tries):
        rounds = draws.integers(3, 12, 40)
        ease = draws.gamma(8, 1 / 8, 40)
        ours, theirs = (
            [
                (int(each) + int(draws.poisson(rate * each * easy)), int(each))
                for each, easy in zip(rounds, ease, strict=True)
            ]
            for rate in (1.2, 1.0)
        )
        found = difference(answers("MT", ours), answers("M", theirs), draws=400)
        held += found.low <= 2.2 / 2.0 - 1 <= found.high
    assert 0.92 <= held / tries <= 0.98


def test_samples_of_one_image_are_drawn_together():
    """Four samples of two images have the interval of two samples with the same counts."""
    ours = [(2, 4), (6, 4), (9, 4), (7, 4)]

    def rows(image_of, tokens_and_rounds):
        return [
            row(f"t/{n}", rounds=[(5, t - 1, t)] * r, first_image=image_of(n))
            for n, (t, r) in enumerate(tokens_and_rounds)
        ]

    others = [(2, 4)] * 4
    together = difference(rows(lambda n: f"i{n // 2}", ours), rows(lambda n: f"i{n // 2}", others))
    apart = difference(rows(lambda n: None, ours), rows(lambda n: None, others))
    merged = [ours[:2], ours[2:]]
    whole = [
        row(f"t/{n}", rounds=[(9, t - 1, t) for t, r in pairs for _ in range(r)])
        for n, pairs in enumerate(merged)
    ]
    halves = [row(f"t/{n}", rounds=[(9, 1, 2)] * 8) for n in range(2)]
    expected = difference(whole, halves)
    assert together.samples == apart.samples == 4
    assert together[1:] == expected[1:]
    assert together[2:] != apart[2:]
