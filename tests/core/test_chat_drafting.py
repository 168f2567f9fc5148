"""Chats that draft from n-grams, and chats that choose their draft lengths."""

from dataclasses import replace

import pytest
from chat_turns import OPTIONS, A, B, asked, check
from scripted_engine import scripted_engine

from mmspec.bench.prompts import asked as prompt_of
from mmspec.check import check as compare
from mmspec.drafting import NGRAM, PLAIN
from mmspec.errors import UsageError
from mmspec.lengths import TIMED
from mmspec.options import Options
from mmspec.sampling import Sampling

AGAIN = "the red square and the red square and the red square and"


@pytest.fixture
def alone(directory):
    """A target without a draft."""
    return scripted_engine(directory, draft=None)


def test_turns_drafted_by_lookup_are_answered_like_cold_runs(alone):
    chat = alone.chat(replace(OPTIONS, drafting="ngram", max_new_tokens=30))
    check(chat, AGAIN, A)
    check(chat, AGAIN, B, A)
    chat.conversation.undo()
    check(chat, "Why? " + AGAIN)
    for _ in chat.retry():
        pass
    check(chat, "Why?")
    assert chat.answer.drafting == NGRAM
    assert chat.answer.statistics.prompt_tokens < chat._side.drafter.length + 100


def test_what_is_looked_up_holds_a_newline_for_every_image(alone):
    chat = alone.chat(replace(OPTIONS, drafting="ngram"))
    asked(chat, "What is this?", A, B)
    held = chat._side.drafter._tokens
    assert alone.target.model.config.image_token_id not in held
    assert held.count(alone.target.tokenizer.newline_id) >= 2


def test_a_draft_can_stay_aside(engine):
    chat = engine.chat(replace(OPTIONS, drafting="ngram"))
    check(chat, AGAIN, A)
    assert chat.answer.drafting.word == "ngram"
    assert engine.draft.model.drafters == []
    chat.options = replace(OPTIONS, drafting="MT")
    check(chat, AGAIN)
    chat.options = replace(OPTIONS, drafting="ngram")
    check(chat, AGAIN)


def test_lookup_stands_in_for_a_draft_that_was_looked_for_in_vain(alone):
    assert alone.chat(OPTIONS).plain
    alone.draftless = "ngram"
    chat = alone.chat(OPTIONS)
    assert not chat.plain
    check(chat, AGAIN, A)
    assert chat.answer.drafting == NGRAM
    chat.speculate = False
    check(chat, AGAIN)
    assert chat.answer.drafting == PLAIN
    chat = alone.chat(replace(OPTIONS, drafting="none"))
    check(chat, AGAIN, A)
    assert (chat.answer.drafting, chat.plain) == (PLAIN, True)


def test_lookup_has_nothing_to_weigh():
    with pytest.raises(UsageError, match="--weights needs --drafting with letters"):
        Options(drafting="ngram", weights=(1.0,))


def test_check_compares_lookup_without_a_draft(alone):
    report = compare(alone, [prompt_of(AGAIN)], Options(drafting="ngram", max_new_tokens=400))
    assert (report.outcome, report.draft, report.comparisons[0].drafting) == (
        "identical",
        "ngram",
        "ngram",
    )
    assert report.comparisons[0].drafted > 0
    with pytest.raises(UsageError, match="--draft"):
        compare(alone, [prompt_of(AGAIN)], Options())


class Script:
    """Stands in for `AutoLength`: two tokens, then what `verdict` says."""

    def __init__(self):
        self.word = None
        self.rounds = []
        self.measured = {}

    def choose(self, limit):
        return min(2, limit)

    def observe(self, round_):
        self.rounds.append(round_)

    def verdict(self):
        return self.word


AUTO = replace(OPTIONS, gamma="auto", drafting="T")


def test_the_rounds_of_all_chats_teach_the_draft_length(engine):
    chats = [engine.chat(AUTO) for _ in range(2)]
    for chat in chats:
        check(chat, "What is this?", A)
    lengths = engine.lengths(chats[0].answer.drafting)
    assert lengths._clock == sum(chat.answer.statistics.rounds for chat in chats)
    assert engine.lengths(PLAIN) is not lengths


def test_falling_back_is_said_once_until_it_drafts_again(engine):
    chat, script = engine.chat(AUTO), Script()
    asked(chat, "What is this?", A)
    engine._lengths[chat.answer.drafting, None] = script
    notes = []
    for script.word in (None, "it loses", "it loses by more", None, "it loses again"):
        asked(chat, "Why?")
        notes.append(chat.answer.notes)
        assert chat.verdict() == script.word
    assert notes == [[], ["it loses"], [], [], ["it loses again"]]
    assert sum(each.drafted for each in script.rounds) > 0
    assert chat.answer.statistics.draft_length > 1


def test_a_seed_is_not_said_to_fix_the_text_where_it_does_not(engine):
    chat = engine.chat(replace(AUTO, sampling=Sampling(1.0)))
    asked(chat, "What is this?", A)
    assert TIMED in chat.answer.notes
    chat.options = replace(chat.options, gamma=3)
    asked(chat, "Why?")
    assert (chat.answer.notes, chat.verdict()) == ([], None)


@pytest.mark.parametrize("gamma", ["fast", "5"])
def test_a_draft_length_is_a_number_or_auto(gamma):
    with pytest.raises(UsageError, match=f"--gamma {gamma}: give a number"):
        Options(gamma=gamma)
