"""Branches that run out of the draft's positions, and targets that do."""

from dataclasses import replace

import pytest

from support.chat_turns import OPTIONS, check
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
