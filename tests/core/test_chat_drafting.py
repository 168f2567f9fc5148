"""What drafts in a chat over scripted models, how far, and what that gains."""

from dataclasses import replace
from statistics import median_low

import pytest

from mmspec.decoding.tree import Tree
from mmspec.drafters.views import LOOKUP, PLAIN
from mmspec.ground.errors import UsageError
from support.scripted_engine import (
    BLIND,
    OPTIONS,
    SEES,
    A,
    B,
    asked,
    check,
    scripted_engine,
    with_positions,
)


def test_the_gain_is_told_by_the_conversation_s_own_plain_rounds(engine):
    chat = engine.chat(OPTIONS)
    assert chat.reply("What is this?", A).speed_up is None  # no plain round yet
    chat.speculate = False
    plain = chat.reply("And this?", A)
    assert plain.plain_seconds == median_low(each.cost_seconds for each in plain.rounds)
    assert plain.speed_up is None
    chat.speculate = True
    drafted = chat.reply("Why?")
    efficiency, measured = drafted.statistics.block_efficiency, drafted.rounds
    for times, gain in ((2, efficiency / 2), (0.5, efficiency)):
        cost = times * drafted.plain_seconds  # half where plain rounds alone were disturbed
        drafted.rounds = [replace(each, cost_seconds=cost) for each in measured]
        assert drafted.speed_up == pytest.approx(gain)


def test_the_default_drafting_follows_the_images(engine):
    chat = engine.chat(OPTIONS)
    asked(chat, "Hello?")
    assert chat.answer.drafting.spec == "T+lookup"
    asked(chat, "What is this?", A)
    assert chat.answer.drafting.spec == "M+lookup"
    adapting = engine.chat(replace(OPTIONS, adaptive=True))
    asked(adapting, "What is this?", A)
    assert adapting.answer.drafting.spec == "MT+lookup"
    asked(chat, "And this?", B)
    assert chat.answer.drafting.spec == "M+lookup"
    asked(chat, "And these three?", B)
    assert chat.answer.drafting.spec == "T+lookup"
    chat.speculate = False
    asked(chat, "Why?")
    assert chat.answer.drafting.spec == "none"
    assert chat.answer.statistics.drafted == 0


def test_a_blind_draft_drafts_from_text(directory):
    chat = scripted_engine(directory, draft=BLIND).chat(OPTIONS)
    check(chat, "What is this?", A)
    assert chat.answer.drafting.spec == "T+lookup"
    with pytest.raises(UsageError, match="text-only"):
        chat.models.chat(replace(OPTIONS, drafting="M"))


def test_a_draft_uses_its_last_positions_and_says_that_they_are_used_up(directory):
    """Its drafts become shorter before they end: the last one fills its positions."""
    engine = scripted_engine(directory, draft=with_positions(SEES, 160))
    chat = engine.chat(replace(OPTIONS, drafting="T", gamma=4, max_new_tokens=170))
    check(chat, "What is this?")
    room = 160 - chat.answer.statistics.prompt_tokens
    place, last = 0, 0
    for round_ in chat.answer.rounds:
        assert round_.drafted == min(4, max(room - place, 0), 169 - place)
        last = place + round_.drafted if round_.drafted else last
        place += len(round_.tokens)
    assert room - 4 < last <= room
    assert chat.answer.notes[-1].startswith("the draft's positions are used up")


def test_equal_letters_of_other_branches_are_another_drafter(engine):
    """Another pooled size, or other weights, of the same letters."""
    chat = engine.chat(replace(OPTIONS, drafting="MP", pool=4))
    check(chat, "What is this?", A)
    for number, changed in enumerate(({"pool": 1}, {"weights": (3.0, 1.0)}), start=2):
        chat.change(replace(chat.options, **changed))
        for text in ("Why?", "And now?"):
            check(chat, text)
            assert len(engine.draft.model.branches) == number


AGAIN = "the red square and the red square and the red square and"


def test_lookup_stands_in_for_a_draft_that_was_looked_for_in_vain(directory):
    alone = scripted_engine(directory, draft=None)
    assert alone.chat(OPTIONS).plain
    looking = replace(alone, draftless="lookup")
    with pytest.raises(UsageError, match="tree=dynamic"):
        alone.chat(replace(OPTIONS, tree=Tree()))
    chat = looking.chat(replace(OPTIONS, tree=Tree()))
    assert not chat.plain
    check(chat, AGAIN, A)
    assert chat.answer.drafting == LOOKUP
    chat.speculate = False
    check(chat, AGAIN)
    assert chat.answer.drafting == PLAIN
    chat = looking.chat(replace(OPTIONS, drafting="none"))
    check(chat, AGAIN, A)
    assert (chat.answer.drafting, chat.plain) == (PLAIN, True)


AUTO = replace(OPTIONS, gamma="auto", drafting="T")


def test_the_rounds_of_all_chats_teach_the_draft_length(engine):
    first, second = (engine.chat(replace(AUTO, max_new_tokens=3)) for _ in range(2))
    check(first, "What is this?", A)
    assert first.answer.statistics.rounds == 3  # two plain ones come first
    check(second, "What is this?", A)
    assert second.answer.statistics.drafted > 0
    of = second.answer.drafting
    changes = {"tree": Tree((2, 2))}, {"overflow": "run"}, {"drafting": "MT", "adaptive": True}
    others = [(AUTO, PLAIN), (AUTO, LOOKUP), *((replace(AUTO, **it), of) for it in changes)]
    assert engine.draft_length(AUTO, of) not in [engine.draft_length(*it) for it in others]
