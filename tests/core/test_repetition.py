"""Where an answer that repeats itself ends: at one token, however it was drafted."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmspec.chat.answer_text import LONGEST, Repetition
from support.chat_turns import OPTIONS, A, check


def slow_cut(tokens: list[int], limit: int) -> int | None:
    """By definition: the first end of `limit` tokens that have one short period."""
    for end in range(limit, len(tokens) + 1):
        last = tokens[end - limit : end]
        for period in range(1, min(LONGEST, limit // 2) + 1):
            if limit and last[period:] == last[:-period]:
                return end
    return None


@given(
    st.lists(st.integers(0, 2), max_size=12),
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    st.integers(2, 12),
    st.integers(1, 5),
)
def test_the_cut_is_the_definition_s_in_rounds_of_any_size(head, part, limit, size):
    tokens = head + part * 4
    repetition, cut = Repetition(limit), None
    for start in range(0, len(tokens), size):
        found = repetition.cut(tokens[start : start + size])
        if found:
            cut = start + found
            break
    assert cut == slow_cut(tokens, limit)


def periodic(seed, sequence, vocabulary):
    """Logits of a target that says 5, 6, 7 by position; other seeds, of drafts, err at times."""
    token = 5 + len(sequence) % 3 if seed == 0 or len(sequence) % 4 else 9
    return np.eye(vocabulary, dtype=np.float32)[token]


@pytest.fixture
def looping(engine, monkeypatch):
    """An engine whose target repeats three tokens."""
    monkeypatch.setattr("support.scripted.logits", periodic)
    return engine


@pytest.mark.parametrize("limit", [20, 21, 22, 23])
def test_an_answer_that_repeats_itself_ends_at_one_token_however_it_is_drafted(looping, limit):
    options = replace(OPTIONS, max_new_tokens=60, repeat_limit=limit)
    plain = looping.chat(replace(options, drafting="none")).reply("What is this?", A)
    chat = looping.chat(options)
    drafted = chat.reply("What is this?", A)
    assert plain.token_ids == drafted.token_ids
    assert len(plain.token_ids) == drafted.statistics.tokens == limit
    assert drafted.statistics.accepted > 0
    assert (drafted.finish_reason, plain.finish_reason) == ("repetition", "repetition")
    assert any(f"the last {limit} tokens repeat themselves" in note for note in drafted.notes)
    assert list(chat.conversation.turns[0].answer) == drafted.token_ids
    check(chat, "And this?", A)
