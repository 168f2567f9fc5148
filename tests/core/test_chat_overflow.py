"""Branches that run out of the draft's positions, and targets that do."""

from dataclasses import replace

import pytest

from support.chat_turns import OPTIONS, A, check
from support.scripted_engine import SEES, picture, scripted_engine, with_positions


@pytest.mark.parametrize(
    ("overflow", "word", "change"),
    [
        ("auto", "T", "left out"),
        ("pool", "PT", "pooled to 4 positions per image"),
        ("drop", "T", "left out"),
        ("run", "MT", ""),
    ],
)
def test_a_branch_too_long_for_the_draft(directory, overflow, word, change):
    engine = scripted_engine(directory, draft=with_positions(SEES, 120))
    chat = engine.chat(replace(OPTIONS, drafting="MT", overflow=overflow))
    check(chat, "x" * 18, *(picture(seed) for seed in range(5)))
    length = chat.answer.statistics.prompt_tokens
    note = f"drafting M: {length} prompt positions, the draft has room for 112: {change}"
    assert chat.answer.drafting.spec == word
    assert chat.answer.notes == ([note] if change else [])
    assert (max(engine.draft.model.branches[-1].row_lengths) > 120) == (overflow == "run")


def test_two_images_are_pooled_by_default_and_three_are_left_to_view_t(directory):
    engine = scripted_engine(directory, draft=with_positions(SEES, 50))
    for images, spec in ((2, "P"), (3, "T")):
        chat = engine.chat(replace(OPTIONS, drafting="M"))
        check(chat, "x", *map(picture, range(images)))
        assert chat.answer.drafting.spec == spec


def test_a_branch_grows_too_long_from_turn_to_turn(directory):
    engine = scripted_engine(directory, draft=with_positions(SEES, 100))
    chat = engine.chat(replace(OPTIONS, drafting="MT"))
    words = []
    for seed in range(4):
        check(chat, "What is this?", picture(seed))
        words.append(chat.answer.drafting.spec)
    assert words[0] == "MT"
    assert words[-1] in ("T", "none")
    assert words == sorted(words, key=["MT", "PT", "T", "none"].index)


def test_a_draft_without_room_leaves_plain_decoding(directory):
    engine = scripted_engine(directory, draft=with_positions(SEES, 10))
    chat = engine.chat(replace(OPTIONS, drafting="MT"))
    check(chat, "What is this?", A)
    assert chat.answer.drafting.spec == "none"
    assert len(chat.answer.notes) == 2


@pytest.mark.parametrize("overflow", ["auto", "pool", "drop", "run"])
def test_positions_that_end_within_an_answer(directory, overflow, monkeypatch):
    monkeypatch.setattr("mmspec.chat.draft_selection.TYPICAL_ANSWER", 0)
    engine = scripted_engine(directory, draft=with_positions(SEES, 60))
    chat = engine.chat(replace(OPTIONS, overflow=overflow, max_new_tokens=80))
    check(chat, "What is this?", A)
    statistics = chat.answer.statistics
    drafted_throughout = statistics.drafted >= 3 * statistics.rounds - 6  # the budget's end
    assert drafted_throughout == (overflow == "run")
