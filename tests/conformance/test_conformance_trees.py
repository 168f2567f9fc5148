"""Drafting trees changes no answer: not its tokens, not its end, not what the caches hold."""

from dataclasses import replace
from itertools import combinations, count, product

import pytest
from conformance_cases import (
    DEPTHS,
    DRAFTINGS,
    IMAGES,
    TREES,
    Case,
    check_like_cold,
    cold,
    plainly,
    questions,
    replies,
    small,
    tree_cases,
)
from test_conformance_chat import FIRST, FORWARDS, SECOND, THIRD, Breaking, Fault, begun

from mmspec.options import Options
from mmspec.sampling import Sampling

BUDGET = 14
GATHERS = {"torch": "mmspec_torch.cache.Cache.gather", "mlx": "mmspec_mlx.cache.Cache.gather"}
"""Where each backend moves the columns of a path together."""
each_kind = pytest.mark.parametrize("tree", [TREES["static"], TREES["dynamic"]], ids=str)


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


@pytest.mark.parametrize("drafting", DRAFTINGS)
def test_speculative_equals_plain(engine, drafting):
    accepted = levels = nodes = 0
    for seed, case in enumerate(tree_cases()):
        if case.drafting == drafting:
            chosen, asked = options_of(case), list(questions(case, seed))
            chat = engine.chat(chosen)
            assert replies(chat, asked) == replies(engine.chat(plainly(chosen)), asked), case
            told = chat.answer.statistics
            accepted, levels = accepted + told.accepted, levels + told.depth
            nodes += told.drafted
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


# Exact ends


@each_kind
@pytest.mark.parametrize("budget", [1, 2, 3, 5, 8, 12])
def test_budgets_are_exact_and_nothing_is_left_behind(engine, budget, tree):
    whole = cold(engine.chat(small(engine, max_new_tokens=13)), FIRST).answer.token_ids
    chat = begun(engine, gamma=4, max_new_tokens=budget, tree=tree)
    assert chat.answer.token_ids == whole[:budget]
    assert chat.answer.finish_reason == "length"
    check_like_cold(chat, THIRD)


@each_kind
@pytest.mark.parametrize("at", [0, 1, 3, 6])
def test_nothing_follows_a_stop_token_and_nothing_is_left_behind(engine, at, tree, monkeypatch):
    whole = begun(engine, max_new_tokens=12).answer.token_ids
    monkeypatch.setattr(engine.target.tokenizer, "eos_ids", frozenset({whole[at]}))
    chat = begun(engine, gamma=4, max_new_tokens=12, tree=tree)
    assert chat.answer.token_ids == whole[: whole.index(whole[at]) + 1]
    assert chat.answer.finish_reason == "stop"
    check_like_cold(chat, THIRD)


@pytest.mark.parametrize("images", [1, 5])
def test_lengths_that_follow_measured_costs_change_no_token(engine, images):
    case = Case("MT", 4, images, 2, "dynamic")
    chosen = replace(options_of(case), gamma="auto", max_new_tokens=30)
    asked = list(questions(case, 4))
    assert replies(engine.chat(chosen), asked) == replies(engine.chat(plainly(chosen)), asked)


# Interrupts and faults


@each_kind
def test_an_answer_dropped_after_any_event_leaves_nothing(engine, tree):
    for events in count():
        chat = begun(engine, "MTP", tree=tree)
        answering = chat.ask(*SECOND)
        taken = sum(1 for _ in zip(range(events), answering, strict=False))
        answering.close()
        check_like_cold(chat, THIRD)
        if taken < events:
            return


@each_kind
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("places", "step"), [(FORWARDS, 5), (GATHERS, 1)], ids=["feed", "gather"])
def test_a_fault_inside_leaves_nothing(engine, backend, places, step, after, tree, monkeypatch):
    breaking, (module, owner, name) = Breaking(after), places[backend].rsplit(".", 2)
    original = getattr(getattr(__import__(module, fromlist=[owner]), owner), name)
    monkeypatch.setattr(places[backend], breaking.around(original))
    named = {"gamma": 3, "max_new_tokens": 12, "tree": tree}
    chat = begun(engine, "MTP", **named)
    before = breaking.calls
    chat.reply(*SECOND)
    total = breaking.calls - before
    assert total
    for call in range(1, total + 1, step):
        chat = begun(engine, "MTP", **named)
        breaking.left = call
        with pytest.raises(Fault):
            chat.reply(*SECOND)
        breaking.left = -1
        check_like_cold(chat, THIRD)


# A draft that cannot be wrong


def test_a_twin_keeps_a_node_of_every_level(twin):
    """A stale draft cache costs acceptance alone, so nothing else shows it."""
    chat = twin.chat(small(twin, "M", gamma=4, tree=TREES["static"]))
    for question in (FIRST, SECOND, THIRD):
        chat.reply(*question)
        assert 0 < chat.answer.statistics.accepted == chat.answer.statistics.depth
    chat.conversation.undo()
    chat.reply(*FIRST)
    assert chat.answer.statistics.accepted == chat.answer.statistics.depth
