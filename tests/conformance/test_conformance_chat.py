"""Whatever a conversation has been through, its next answer is a cold run's."""

from functools import partial
from itertools import count, product
from pkgutil import resolve_name

import pytest
from test_conformance_sampling import SAMPLINGS

from mmspec.chat.options import Options
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.drafters.heads.drafter import HeadDrafter
from support.conformance_cases import (
    PICTURES,
    TREES,
    check_like_cold,
    in_turn,
    interrupt,
    logits,
    small,
)
from support.stand_ins import Breaking, Fault

FIRST = ("What is in the picture?", (PICTURES[0],))
SECOND = ("How many shapes are there?", (PICTURES[1],))
THIRD = ("Which bar is the tallest?", ())
FORWARDS = "mmspec_{}.network.attention.Attention.__call__"
"""What a backend runs once per layer of every forward."""
GATHERS = "mmspec_{}.network.cache.Cache.gather"
"""Where a backend moves the columns of a path together."""
STATIC, DYNAMIC = TREES["static"], TREES["dynamic"]


def begun(engine, drafting="MT", **named):
    """A chat that has answered one question."""
    chat = engine.chat(Options(drafting, **{"gamma": 3, "max_new_tokens": 10} | named))
    chat.reply(*FIRST)
    return chat


# Interrupts and faults


HOW = [("MTP", None), ("MTP", STATIC), ("lookup", DYNAMIC), ("none", None)]


@pytest.mark.parametrize(("backend", "how"), in_turn(HOW, others=True), indirect=["backend"])
def test_an_answer_dropped_after_any_event_leaves_nothing(engine, how):
    drafting, tree = how
    for events in count():
        chat = begun(engine, drafting, tree=tree, max_new_tokens=6)
        goes_on = interrupt(chat, SECOND, events)
        assert len(chat.conversation.turns) == (2 if events else 1)
        check_like_cold(chat, THIRD)
        if not goes_on:
            return


def check_broken_at_every_call(begin, breaking, step, anew=False):
    """Break the second question of `begin()` at each call in turn; the next must not show it.

    anew: the next is the first again, of an empty conversation.
    """
    chat = begin()
    before = breaking.calls
    chat.reply(*SECOND)
    total = breaking.calls - before
    assert total
    for call in range(1, total + 1, step):
        chat = begin()
        breaking.left = call
        with pytest.raises(Fault):
            chat.reply(*SECOND)
        breaking.left = -1
        if anew:
            chat.conversation.reset()
        check_like_cold(chat, FIRST if anew else THIRD)


CALLS = in_turn(product(("before", "after"), ("target", "drafter", "head")))


@pytest.mark.parametrize(("backend", "call"), CALLS, indirect=["backend"])
def test_a_fault_at_any_call_leaves_nothing(engine, headed, backend, call, monkeypatch):
    """The second question replaces the first, so that its rewinds remove tokens."""
    (when, side), model = call, engine.target.model
    chosen, drafting = (headed(backend, "flash"), "flash") if side == "head" else (engine, "MTP")
    breaking = Breaking(when == "after")
    owner = {
        "target": type(model.open_target(GREEDY)),
        "drafter": type(model.open_branches(1, 320, GREEDY)),
        "head": HeadDrafter,
    }[side]
    for name in ("extend", "rewind", "verify" if side == "target" else "draft", "commit"):
        monkeypatch.setattr(owner, name, breaking.around(getattr(owner, name)))

    def undone():
        chat = begun(chosen, drafting, gamma=2, max_new_tokens=5)
        chat.conversation.undo()
        return chat

    check_broken_at_every_call(undone, breaking, 1, anew=True)


BROKEN = [
    (FORWARDS, "MTP", None, 5, 0),
    (FORWARDS, "MTP", STATIC, 11, 0),
    (FORWARDS, "MTP", DYNAMIC, 11, 1),
    (GATHERS, "MTP", STATIC, 1, 0),
    (GATHERS, "MTP", DYNAMIC, 1, 0),
    (FORWARDS, "flash", STATIC, 5, 0),
    (FORWARDS, "eagle3", None, 5, 1),
]
"""What breaks, the drafting and its tree, the steps between broken calls, the temperature."""
TURNS = [(name, *case, after) for name, (after, case) in in_turn(product((False, True), BROKEN))]


@pytest.mark.parametrize(
    ("backend", "place", "drafting", "tree", "step", "temperature", "after"),
    TURNS,
    indirect=["backend"],
)
def test_a_fault_inside_a_forward_leaves_nothing(
    engine, headed, backend, place, drafting, tree, step, temperature, after, monkeypatch
):
    """Each fault before a call on one backend, and after it on the other."""
    breaking, path = Breaking(after), place.format(backend)
    monkeypatch.setattr(path, breaking.around(resolve_name(path)))
    named = {"tree": tree, "sampling": Sampling(temperature), "seed": 5, "max_new_tokens": 8}
    chosen = engine if drafting == "MTP" else headed(backend, drafting)
    check_broken_at_every_call(partial(begun, chosen, drafting, **named), breaking, step)


# Images and turns


@pytest.mark.parametrize("drafting", ["MP", "lookup", "none"])
def test_the_same_text_with_another_image_reuses_nothing_of_the_first(engine, drafting):
    chat = begun(engine, drafting)
    first, (one, other, *_) = logits(chat), PICTURES
    for seen in ((other,), (other, one), (one, other)):
        chat.conversation.undo()
        check_like_cold(chat, (FIRST[0], seen))
        assert abs(logits(chat) - first).max() > 0.01


@pytest.mark.parametrize("drafting", ["MTCP", "lookup", "none"])
def test_undo_retry_reset_and_other_draftings_are_like_cold_runs(engine, drafting):
    chat = begun(engine, drafting)
    check_like_cold(chat, SECOND)
    expected = chat.answer.token_ids
    list(chat.retry())
    assert chat.answer.token_ids == expected
    chat.speculate = False
    check_like_cold(chat, THIRD)
    chat.speculate = True
    chat.conversation.undo()
    check_like_cold(chat, THIRD)
    chat.conversation.reset()
    check_like_cold(chat, SECOND)


# A draft that cannot be wrong


TWINS = in_turn(product((None, STATIC), [GREEDY, *SAMPLINGS.values()]))


@pytest.mark.parametrize(("backend", "how"), TWINS, indirect=["backend"])
def test_a_twin_is_always_accepted(twin, how):
    """A stale draft cache, or other noise, costs acceptance alone, so nothing else shows it."""
    tree, sampling = how
    options = small(twin, "M", sampling=sampling, seed=4, tree=tree)
    chat = twin.chat(options)

    def all_accepted():
        statistics = chat.answer.statistics
        return 0 < statistics.accepted == statistics.depth

    for question in (FIRST, SECOND, THIRD):
        chat.reply(*question)
        assert all_accepted()
    chat.conversation.undo()
    chat.conversation.undo()
    for question in ((SECOND[0], FIRST[1]), THIRD):
        chat.reply(*question)
        assert all_accepted()
    interrupt(chat, SECOND, 3)
    check_like_cold(chat, THIRD)
    assert all_accepted()
