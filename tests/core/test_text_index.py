"""The index of a text's places against a search of the whole text."""

from itertools import count
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from mmspec.drafters.text_index import BUCKETS, CONTEXTS, LONGEST, MOST_NEW, REACH, STEPS, TextIndex
from mmspec.ground.tokens import NO_TOKEN


def index_of(tokens):
    index = TextIndex()
    index.extend(tokens)
    return index


def text_of(index):
    return index.tokens[len(index.tokens) - index.length :].tolist()


def searched(tokens, context):
    """Texts before each place, by agreement, by comparing all places with the context."""
    groups = [[] for _ in range(LONGEST + 1)]
    most = LONGEST + 1
    for size, steps in zip(CONTEXTS, STEPS, strict=True):
        for place in range(len(tokens) - 1, size - 1, -1):
            before = tokens[:place][::-1]
            pairs = list(zip(before, reversed(context), strict=False))[:LONGEST]
            agree = next((n for n, (a, b) in enumerate(pairs) if a != b), len(pairs))
            if agree >= size:
                steps -= 1
                if agree < most and steps >= 0:
                    groups[agree].append(place)
        most = size
        if sum(map(len, groups)) >= STEPS[CONTEXTS.index(size)]:
            break
    if not any(groups):
        latest = range(len(tokens) - 1, max(0, len(tokens) - REACH - 1), -1)
        new = [at for at in latest if tokens[at - 1] not in [NO_TOKEN, *tokens[: at - 1]]]
        groups[0] = new[:MOST_NEW]
    return groups


def found(index):
    shift = len(index.tokens) - index.length
    return [[place - shift for place in places] for places in index.places(index.context)[0]]


STEP = some.one_of(
    some.lists(some.sampled_from([0, 1, 2, NO_TOKEN]), min_size=1, max_size=12), some.floats(0, 1)
)


def after_new(length):
    """A text whose last token is new, as others were that many tokens before."""
    return [*range(8), *[7, 8] * (length // 2), *range(20, 26)]


@settings(max_examples=100)
@given(some.lists(STEP, max_size=20))
@example([[1, 2, 3] * 20])
@example([after_new(9)])
@example([after_new(REACH - 9)])
@example([after_new(REACH + 9)])
def test_whatever_came_before_it_finds_what_a_search_finds(steps):
    index, tokens = TextIndex(), []
    for step in steps:
        if isinstance(step, float):
            tokens = tokens[: int(step * len(tokens))]
            index.rewind(len(tokens))
        else:
            tokens = tokens + step
            index.extend(step)
        assert text_of(index) == tokens
        context = tokens[-LONGEST:]
        while NO_TOKEN in context:
            context = context[context.index(NO_TOKEN) + 1 :]
        assert found(index) == searched(tokens, context)


@given(
    some.lists(some.sampled_from([0, 1, 2, NO_TOKEN]), max_size=40),
    some.lists(some.sampled_from([0, 1, 2]), min_size=1, max_size=9),
)
def test_an_index_that_is_made_at_once_finds_the_same_and_goes_on(tokens, more):
    index = TextIndex.of(np.array(tokens, np.int32))
    assert text_of(index) == tokens
    index.extend([*tokens, *more])
    index.rewind(len(tokens))
    index.extend(more)
    whole = index_of([*tokens, *more])
    assert index.places(whole.context) == whole.places(whole.context)


def test_tables_that_grew_shrink_again():
    draws = Random(0)
    tokens = [draws.randrange(40) for _ in range(9 * BUCKETS)]
    index = index_of(tokens)
    for length in (8 * BUCKETS + 1, 4 * BUCKETS, 2 * BUCKETS + 7, 2 * BUCKETS - 9, 5):
        index.rewind(length)
        fresh = index_of(tokens[:length])
        contexts = [tokens[at : at + LONGEST] for at in range(0, len(tokens) - LONGEST, 97)]
        assert all(index.places(each) == fresh.places(each) for each in contexts)
    index.extend(tokens[5:])
    whole = index_of(tokens)
    assert all(index.places(each) == whole.places(each) for each in contexts)


@pytest.mark.parametrize("length", [3, 2 * BUCKETS, 2 * BUCKETS + 3])
@pytest.mark.parametrize("at", [1, 8, 29, 57])
def test_after_an_interrupt_anywhere_the_old_text_is_there(monkeypatch, length, at):
    def interrupted(*_):
        if next(calls) == at:
            raise KeyboardInterrupt
        return 5, 6, 7

    draws, calls = Random(length), count()
    tokens = [draws.randrange(5) for _ in range(length)]
    index, fresh = index_of(tokens), index_of(tokens)
    with monkeypatch.context() as patch:
        patch.setattr("mmspec.drafters.text_index._keys", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.extend([1] * 90)
        assert index.length == length
        index.rewind(length)
    index.extend([3, 4, 3])
    fresh.extend([3, 4, 3])
    assert found(index) == found(fresh) == searched([*tokens, 3, 4, 3], index.context)


HOSTILE = {
    "one token": lambda _, place: 7,
    "a loop": lambda _, place: place % 3,
    "two tokens": lambda draws, _: draws.randrange(2),
    "all new": lambda _, place: place,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_token_takes_at_most_40_bytes_and_a_search_a_fixed_number_of_places(name):
    draws = Random(1)
    index = index_of(HOSTILE[name](draws, place) for place in range(9_000))
    arrays = [index.tokens, *(a for t in index._tables for a in (t._latest, t._links))]
    assert sum(each.buffer_info()[1] * each.itemsize for each in arrays) <= 40 * index.length
    assert sum(map(len, found(index))) <= sum(STEPS)
