"""Drafting trees changes no answer: not its tokens, not its end, not what the caches hold."""

from dataclasses import replace
from itertools import combinations, product

import pytest

from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from support.conformance_cases import (
    DEPTHS,
    DRAFTINGS,
    IMAGES,
    TREES,
    Case,
    check_replies,
    each_with_seeds,
    questions,
    tree_cases,
)

BUDGET = 14


def options_of(case, **named):
    given = {"gamma": case.gamma, "max_new_tokens": BUDGET, "tree": TREES[case.tree]}
    return Options(drafting=case.drafting, **given, **named)


def test_the_covering_set_holds_every_pair_of_values():
    pairs = {pair for case in tree_cases() for pair in combinations(vars(case).items(), 2)}
    factors = {"drafting": DRAFTINGS, "gamma": DEPTHS, "images": IMAGES, "turns": (1, 2)}
    for (first, ones), (second, others) in combinations([*factors.items(), ("tree", TREES)], 2):
        for one, other in product(ones, others):
            assert ((first, one), (second, other)) in pairs
    assert {case.tree for case in tree_cases() if not case.images} == set(TREES)


@each_with_seeds("drafting", DRAFTINGS)
def test_speculative_equals_plain(engine, drafting, first_seed):
    accepted = levels = nodes = 0
    for case in tree_cases():
        if case.drafting == drafting:
            asked = questions(case, first_seed + case.gamma % 4)
            chat = check_replies(engine, options_of(case), asked)
            statistics = chat.answer.statistics
            accepted, levels = accepted + statistics.accepted, levels + statistics.depth
            nodes += statistics.drafted
    assert 0 < accepted < levels < nodes


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_every_backend_keeps_the_same_tokens(backends, engines, tree, temperature):
    case = Case("MTC", 4, 2, 2, tree)
    chosen = options_of(case, sampling=Sampling(temperature, top_p=0.95), seed=3)
    told = []
    for name in backends:
        chat = engines[name].chat(chosen)
        rounds = []
        for text, images in questions(case, 8):
            chat.reply(text, images)
            rounds += [(each.tokens, each.drafted, each.accepted) for each in chat.answer.rounds]
        told.append(rounds)
    assert all(each == told[0] for each in told)


@pytest.mark.parametrize("images", [1, 5])
def test_lengths_that_follow_measured_costs_change_no_token(engine, images):
    case = Case("MT", 4, images, 2, "dynamic")
    chosen = replace(options_of(case), gamma="auto", max_new_tokens=30)
    check_replies(engine, chosen, questions(case, 4))
