"""N-gram drafting against a plain search of the whole history, and in the loop."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from test_loop import PROMPT, greedy, rounds_of

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import HostDraft, Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import Sampling
from mmspec.drafters.ngram import LONGEST, SHORTEST, NgramDrafter, onward
from support.scripted import ScriptedFeatures, ScriptedTarget


def searched(tokens, k):
    """The continuation of the longest suffix's latest earlier occurrence, by looking everywhere."""
    for size in range(LONGEST, SHORTEST - 1, -1):
        for end in range(len(tokens) - 1, size - 1, -1):
            if size < len(tokens) and tokens[end - size : end] == tokens[-size:]:
                copied = list(tokens)
                for node in range(k):
                    copied.append(copied[end + node])
                return copied[len(tokens) :]
    return None


def proposed(drafter, k=5):
    draft = drafter.draft(Plan(k), NO_NOISE)
    return draft and draft.tokens


def drafter_of(tokens):
    drafter = NgramDrafter()
    drafter.extend([Segment([tokens])])
    return drafter


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([], None),
        ([1], None),
        ([1, 2, 3], None),
        ([1, 2, 9, 8, 7, 1, 2], [9, 8, 7, 1, 2]),
        ([1, 2, 9, 1, 2, 8, 1, 2], [8, 1, 2, 8, 1]),
        ([0, 1, 2, 9, 3, 1, 2, 8, 0, 1, 2], [9, 3, 1, 2, 8]),
        ([4, 4, 4], [4, 4, 4, 4, 4]),
        ([1, 2, 1, 2, 1, 2], [1, 2, 1, 2, 1]),
    ],
    ids=["empty", "one", "new", "seen", "latest", "longest", "run", "loop"],
)
def test_what_followed_is_proposed(tokens, expected):
    assert proposed(drafter_of(tokens)) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([[1, 2], ScriptedFeatures("a"), [1, 2]], None),
        ([[1, 2, 7], ScriptedFeatures("a"), [1, 2]], [7]),
        ([[1], ScriptedFeatures("a"), [2, 9, 1], ScriptedFeatures("a"), [2]], None),
        ([[1, 2, 7, 8], ScriptedFeatures("a"), [3], ScriptedFeatures("a"), [1, 2]], [7, 8]),
    ],
    ids=["follows", "cut", "within", "before"],
)
def test_an_image_is_never_matched_and_never_proposed(parts, expected):
    drafter = NgramDrafter()
    drafter.extend([Segment(parts)])
    assert proposed(drafter) == expected


STEPS = some.lists(
    some.one_of(
        some.tuples(some.just("extend"), some.lists(some.integers(0, 2), min_size=1, max_size=8)),
        some.tuples(some.just("commit"), some.lists(some.integers(0, 2), min_size=1, max_size=3)),
        some.tuples(some.just("rewind"), some.floats(0, 1)),
        some.tuples(some.just("draft"), some.integers(1, 8)),
    ),
    max_size=30,
)


@settings(max_examples=150)
@given(STEPS)
def test_whatever_came_before_it_finds_what_a_search_finds(steps):
    drafter, tokens = NgramDrafter(), []
    for step, given_ in steps:
        if step == "rewind":
            tokens = tokens[: int(given_ * len(tokens))]
            drafter.rewind(len(tokens))
        elif step == "draft":
            assert proposed(drafter, given_) == searched(tokens, given_)
        else:
            tokens = tokens + given_
            if step == "extend":
                drafter.extend([Segment([given_])])
            else:
                drafter.commit([], given_, Verdict([], [], given_))
        assert drafter.length == len(tokens)
    assert proposed(drafter) == searched(tokens, 5)


def test_bytes_that_match_across_two_tokens_are_no_match():
    shifted = [5, 3 << 8, 4 << 8, 9 << 8, 3, 4]
    assert proposed(drafter_of(shifted)) is None
    assert proposed(drafter_of([3, 4, 7, *shifted]), 1) == [7]


@pytest.mark.parametrize("length", [-1, 4])
def test_lengths_that_are_not_there_cannot_be_rewound_to(length):
    with pytest.raises(ValueError, match="3 tokens"):
        drafter_of([1, 2, 3]).rewind(length)


def test_past_the_end_a_copy_repeats():
    assert onward([9, 1, 2, 3], 1, 7) == [1, 2, 3, 1, 2, 3, 1]


@pytest.mark.parametrize("gamma", [1, 3, 8])
def test_greedy_lookup_says_what_the_target_says(gamma):
    target, drafter = ScriptedTarget(vocabulary=3), drafter_of(PROMPT)
    target.extend(Segment([PROMPT]))
    rounds = rounds_of(target, drafter, gamma=gamma, max_tokens=80)
    assert [t for each in rounds for t in each.tokens] == greedy(80, vocabulary=3)
    assert sum(each.accepted for each in rounds) > 0
    assert any(not each.drafted for each in rounds)


class Always(NgramDrafter):
    """Proposes the same two tokens whatever was said."""

    def draft(self, plan, noise):
        return HostDraft([2, 1][: plan.gamma])


@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(1.3, top_k=2)], ids=["T1", "top-k"])
def test_sampled_lookup_says_what_plain_sampling_says(sampling):
    answers = []
    for drafter in (None, drafter_of(PROMPT), Always()):
        target = ScriptedTarget(vocabulary=4, sampling=sampling)
        target.extend(Segment([PROMPT]))
        if isinstance(drafter, Always):
            drafter.extend([Segment([PROMPT])])
        rounds = rounds_of(target, drafter, gamma=3, max_tokens=80, seed=2)
        answers.append([token for each in rounds for token in each.tokens])
        assert drafter is None or sum(each.accepted for each in rounds) > 0
    assert answers[0] == answers[1] == answers[2]
