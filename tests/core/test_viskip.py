"""Which rounds are plain because the target looked at an image, and how looking is measured."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from chat_turns import OPTIONS, A, B, check, cold

from mmspec.errors import UsageError
from mmspec.lengths import AutoLength
from mmspec.loop import decode
from mmspec.options import Options
from mmspec.sampling import Sampling
from mmspec.seam import Segment
from mmspec.statistics import Round
from mmspec.tree import Tree
from mmspec.viskip import Skipping, share, skipping
from scripted import ScriptedDrafter, ScriptedFeatures, ScriptedTarget, glance

IMAGE = 99
SEEN = Segment([3, *[IMAGE] * 4, 1, 4], [ScriptedFeatures("a cat")])
WARM = Sampling(0.8)
THRESHOLDS = (0.0, 0.2, 0.35, 0.7, 1.0)
TREES = {"chain": None, "static": Tree((3, 2, 2)), "dynamic": Tree((), 3, 8)}
each_tree = pytest.mark.parametrize("tree", TREES.values(), ids=TREES)


class Alone:
    def weights(self, row_lengths, gamma):
        return [1.0]


def rounds(threshold, *, segment=SEEN, gamma=3, seed=None, count=80, tree=None):
    """The rounds of an answer, and the target that gave it."""
    sampling = WARM if seed is not None else Options().sampling
    target = ScriptedTarget(watch=threshold is not None, sampling=sampling)
    drafter = ScriptedDrafter(sampling=sampling, tree=tree)
    target.extend(segment)
    drafter.extend([segment])
    lengths = skipping(gamma, threshold)
    told = decode(target, drafter, Alone(), gamma=lengths, max_tokens=count, seed=seed)
    return list(told), target


def tokens(done):
    return [token for each in done for token in each.tokens]


# What is seen


def test_the_share_is_each_heads_softmax_over_all_it_sees():
    """Four query heads on two key heads, two images, rows that see one column more each."""
    draws = np.random.default_rng(3)
    queries, keys = draws.normal(size=(4, 3, 8)), draws.normal(size=(2, 20, 8))
    images = [(2, 6), (9, 12)]
    expected = np.zeros(3)
    for row in range(3):
        for head in range(4):
            visible = range(18 + row)
            scores = [keys[head // 2, at] @ queries[head, row] / 8**0.5 for at in visible]
            weights = np.exp(scores) / np.exp(scores).sum()
            expected[row] += sum(weights[a:b].sum() for a, b in images) / 4
    mask = np.where(np.arange(20) < 18 + np.arange(3)[:, None], 0.0, -np.inf)
    np.testing.assert_allclose(share(np, queries, keys, mask, images), expected)


@each_tree
@pytest.mark.parametrize("seed", [None, 5], ids=["greedy", "drawn"])
def test_a_round_tells_what_its_last_accepted_token_saw(seed, tree):
    done, target = rounds(0.35, seed=seed, tree=tree)
    end = len(SEEN.tokens)
    for each in done:
        end += len(each.tokens)
        assert each.seen == glance(target.sequence[: end - 1])
    assert len({each.accepted for each in done}) > 2


# Which rounds are plain


@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("seed", [None, 5], ids=["greedy", "drawn"])
def test_a_round_is_plain_exactly_where_the_last_one_looked(threshold, gamma, seed):
    done, _ = rounds(threshold, gamma=gamma, seed=seed)
    left = 80
    looked = False
    for each in done:
        assert each.drafted == (0 if looked else min(gamma, left - 1))
        left -= len(each.tokens)
        looked = each.seen >= threshold
    assert threshold == 0 or sum(each.accepted for each in done) > 0


def test_the_extreme_thresholds_skip_all_but_the_first_round_and_none():
    everything, nothing, without = (rounds(each)[0] for each in (0.0, 1.0, None))
    assert [each.drafted for each in everything] == [3] + [0] * (len(everything) - 1)
    assert [(each.tokens, each.drafted) for each in nothing] == [
        (each.tokens, each.drafted) for each in without
    ]
    assert {each.seen for each in without} == {0.0}


@each_tree
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_greedy_tokens_are_the_targets_own(threshold, tree):
    assert tokens(rounds(threshold, tree=tree)[0]) == tokens(rounds(None)[0])


@pytest.mark.parametrize("threshold", [0.0, 0.35])
def test_text_alone_is_drafted_as_without(threshold):
    text = Segment([3, 1, 4, 1, 5])
    with_, without = (rounds(each, segment=text)[0] for each in (threshold, None))
    assert [(each.tokens, each.drafted, each.seen) for each in with_] == [
        (each.tokens, each.drafted, 0.0) for each in without
    ]


# Chosen lengths


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_chosen_lengths_are_skipped_by_the_same_rule(threshold):
    done, _ = rounds(threshold, gamma=AutoLength(), count=200)
    for before, each in pairwise(done):
        assert each.drafted == 0 or before.seen < threshold
    assert tokens(done) == tokens(rounds(None, count=200)[0])


def test_a_trial_that_was_skipped_is_still_due():
    """Plain rounds that looking imposed are no outcome of a trial."""
    lengths = AutoLength()
    skips = Skipping(lengths, 0.35)
    tried = False
    while not tried:
        k = skips.choose(4)
        tried = lengths._trying and lengths._best > 1
        skips.observe(Round([0] * (k + 1), k, k, 0.0, 1.0 + 0.1 * k, seen=0.9 * tried))
    due, wait = lengths._due, lengths._wait
    for _ in range(due + 3):
        assert skips.choose(4) == 0
        skips.observe(Round([0], 0, 0, 0.0, 1.0, seen=0.9))
    assert (lengths._due, lengths._wait) == (-3, wait)
    skips.observe(Round([0], 0, 0, 0.0, 1.0))
    skips.choose(4)
    assert lengths._trying


# Conversations


@pytest.mark.parametrize("word", ["M", "MTC", "ngram"])
@pytest.mark.parametrize("threshold", [0.0, 0.35, 1.0])
def test_turns_are_answered_like_cold_runs(engine, word, threshold):
    chat = engine.chat(replace(OPTIONS, drafting=word, skip_vision=threshold))
    check(chat, "What is this?", A)
    check(chat, "And these?", B, A)
    check(chat, "Why?")


@pytest.mark.parametrize("events", [1, 2, 4, 5])
def test_a_dropped_answer_asked_again_skips_as_a_cold_one(engine, events):
    options = replace(OPTIONS, drafting="M", max_new_tokens=30, skip_vision=0.35)
    fresh = engine.chat(options)
    fresh.reply("What is this?", (A,))
    chat = engine.chat(options)
    asking = chat.ask("What is this?", (A,))
    for _ in range(events):
        next(asking)
    asking.close()
    for _ in chat.retry():
        pass
    keys = [(each.tokens, each.drafted, each.seen) for each in chat.answer.rounds]
    assert keys == [(each.tokens, each.drafted, each.seen) for each in fresh.answer.rounds]
    assert 0 in [drafted for _, drafted, _ in keys]


def test_every_answer_begins_with_a_draft(engine):
    chat = engine.chat(replace(OPTIONS, drafting="M", skip_vision=0.0))
    for text, images in (("What is this?", (A,)), ("Why?", ())):
        first, *rest = chat.reply(text, images).rounds
        assert first.drafted
        assert not any(each.drafted for each in rest)


def test_plain_decoding_watches_nothing(engine):
    chat = engine.chat(replace(OPTIONS, drafting="none", skip_vision=0.35))
    assert not chat._session.target.watch
    assert cold(chat, "What is this?", A)


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan")])
def test_a_share_is_between_nothing_and_all(threshold):
    with pytest.raises(UsageError, match=r"--skip-vision .* from 0 to 1"):
        Options(skip_vision=threshold)
