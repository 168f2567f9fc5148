"""Places that one view alone has right, read off the rounds, against drafts that are known."""

import random
from collections import Counter

import pytest

from support.suite_row import row
from support.view_pairs import BREAK_EVEN, CURVE, EVEN, ViewPair, compare, right_places

GAMMA = 3


def drafted(right, gamma=GAMMA):
    """The rounds of a chain whose token at each place of the answer is right or not."""
    rounds, start = [], 0
    while start < len(right):
        length = min(gamma, len(right) - start - 1)
        chain = right[start : start + length]
        accepted = (*chain, False).index(False)
        rounds.append((length, accepted, accepted + 1))
        start += accepted + 1
    return rounds


def answer(method, right, sample="chart/0"):
    return row(sample, method, drafted(right), [method])


@pytest.mark.parametrize("seed", range(20))
def test_places_are_those_of_the_chain_and_unknown_only_after_whole_chains(seed):
    rng = random.Random(seed)
    right = [rng.random() < 0.7 for _ in range(60)]
    known = right_places(answer("M", right))
    assert known == {place: right[place] for place in known}
    ends, start = set(), 0
    for length, accepted, emitted in drafted(right):
        if accepted == length:
            ends.add(start + accepted)
        start += emitted
    assert set(range(60)) - known.keys() == ends


def test_an_answer_that_ends_within_a_chain_has_no_place_after_its_end():
    assert right_places(row(rounds=[(3, 2, 2)])) == {0: True, 1: True}


def test_lone_places_and_what_the_mixture_recovers():
    m = answer("M", [True, True, False, True, False, True, True])
    t = answer("T", [True, False, True, False, False, True, False])
    mixed = answer("MT", [True, True, False, False, False, True, True])
    pair = compare([m], [t], [mixed])
    # No chain reaches the last place, and M alone is right in places 1 and 3, T alone in place 2.
    assert pair.places == {(True, True): 2, (True, False): 2, (False, True): 1, (False, False): 1}
    assert (pair.lone, pair.weaker) == (pytest.approx(1 / 2), pytest.approx(1 / 3))
    assert pair.mixed == {True: 1, False: 2}
    assert pair.recovered == pytest.approx(1 / 3)


def test_answers_that_differ_are_left_out():
    m, t = answer("M", [True] * 6), row("chart/0", "T", [(3, 3, 4)], ["T"])
    assert not compare([m], [t]).places
    assert compare([m], [t]).recovered is None


def test_the_expected_gain_is_that_of_independent_places():
    pair = ViewPair(
        Counter({(True, True): 6, (True, False): 2, (False, True): 1, (False, False): 1})
    )
    mixed, best = 0.6 + 0.3 * (EVEN + CURVE / 36), 0.8
    tokens = {share: (1 - share**4) / (1 - share) for share in (mixed, best)}
    assert pair.expected_gain(3) == pytest.approx(tokens[mixed] / tokens[best] - 1)


@pytest.mark.parametrize("beside", [-0.01, 0.01])
def test_the_expected_gain_changes_its_sign_at_the_break_even(beside):
    weaker = round(1000 * (BREAK_EVEN + beside))
    pair = ViewPair(Counter({(True, False): 1000 - weaker, (False, True): weaker}))
    assert (pair.expected_gain(5) > 0) == (beside > 0)
