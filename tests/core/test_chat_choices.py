"""Chats that choose a draft and its length, and branches that run out of positions."""

from dataclasses import replace

import pytest

from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.drafters.views import LOOKUP, PLAIN
from mmspec.ground.errors import UsageError
from support.scripted_engine import OPTIONS, A, check, scripted_engine

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
    others = (AUTO, PLAIN), (AUTO, LOOKUP), (replace(AUTO, tree=Tree((2, 2))), of)
    assert engine.draft_length(AUTO, of) not in [engine.draft_length(*it) for it in others]


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        ({"gamma": 5.0}, "a whole number from 1 to 64, or auto"),
        ({"max_new_tokens": 1.5}, "a whole number of at least 1"),
        ({"logprobs": 1.5}, "a whole number of at least 0"),
        ({"sampling": Sampling(1.0, top_k=1.5)}, "a whole number of at least 0"),
        ({"sampling": 0.7}, r"a Sampling, such as Sampling\(0.7\)"),
        ({"tree": "dynamic"}, r"a Tree, such as Tree\(\), None or 'auto'"),
        ({"seed": 0.5}, f"a whole number from {-(2**63)} to {2**63 - 1}"),
        ({"seed": 2**63}, "a whole number from"),
        ({"adaptive": "yes"}, "True or False"),
        ({"drafting": 5}, "letters such as MTC"),
        ({"drafting": "MP", "pool": 4.0}, "a whole number or None"),
        ({"drafting": "MT", "weights": ("2", "1")}, "numbers >= 0, one above 0"),
    ],
)
def test_an_option_of_another_kind_is_refused_by_name(wrong, allowed):
    with pytest.raises(UsageError, match=rf"^`\w+=.+`: give {allowed}"):
        Options(**wrong)


def test_the_default_drafting_has_a_name():
    assert Options(drafting="auto") == Options()
