"""Texts beside a conversation: earlier turns in memory and in a file, and files that are quoted."""

import stat
from dataclasses import replace

import numpy as np
import pytest

from mmspec.chat import memory as module
from mmspec.chat.memory import HEADER, IDS, MOST_TOKENS, Memory
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.ground.errors import CheckpointError
from mmspec.ground.tokens import NO_TOKEN
from support.chat_turns import OPTIONS, A, check
from support.scripted_engine import scripted_engine

LOOKUP = replace(OPTIONS, drafting="lookup", tree=Tree(nodes=12), max_new_tokens=24)


def tokens_of(memory):
    index = memory.text.index
    return index.tokens[len(index.tokens) - index.length :].tolist()


def test_turns_are_there_again_and_only_their_owner_can_read_them(tmp_path):
    file = tmp_path / "lookup" / "a.ids"
    first, second = Memory(10, file), Memory(10, file)
    assert tokens_of(first) == []
    first.add([1, 2])
    second.add([3])
    first.save()
    first.save()
    second.save()
    assert tokens_of(Memory(10, file)) == [1, 2, NO_TOKEN, 3, NO_TOKEN]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_oldest_turns_leave_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_TOKENS", 7)
    memory = Memory(10, tmp_path / "a.ids")
    for turn in ([1, 2, 3], [4, 5], [6, 7], [8]):
        memory.add(turn)
    memory.save()
    assert tokens_of(Memory(10, tmp_path / "a.ids")) == [6, 7, NO_TOKEN, 8, NO_TOKEN]
    for _ in range(9):
        memory.add([9])
    assert 2 <= len(tokens_of(memory)) <= 14


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"something else, of sixteen bytes",
        HEADER + b"abc",
        HEADER + np.array([10], IDS).tobytes(),
        HEADER + np.array([-2], IDS).tobytes(),
        HEADER + bytes(IDS.itemsize * (MOST_TOKENS + 1)),
    ],
    ids=["empty", "other", "cut", "above", "below", "large"],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, content):
    (tmp_path / "a.ids").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"a\.ids"):
        Memory(10, tmp_path / "a.ids")


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9)], ids=["greedy", "drawn"])
def test_what_was_answered_before_is_drafted_and_changes_no_token(directory, sampling):
    engine, options = scripted_engine(directory, draft=None), replace(LOOKUP, sampling=sampling)
    rounds = []
    for memory in (None, Memory(300), None):
        engine.memory = memory or engine.memory
        chat = engine.chat(options)
        check(chat, "What is this?", A)
        rounds.append(chat.answer.statistics.rounds)
        check(chat, "Why?", A)
        chat.conversation.undo()
        check(chat, "How?")
        for _ in chat.retry():
            pass
    assert rounds[2] < rounds[0]


def test_only_what_lookup_drafts_is_remembered(engine):
    engine.memory = Memory(300)
    check(engine.chat(OPTIONS), "What is this?", A)
    assert tokens_of(engine.memory) == []
    chat = engine.chat(LOOKUP)
    check(chat, "What is this?", A)
    question = engine.target.tokenizer.encode("What is this?")
    tokens = tokens_of(engine.memory)
    assert tokens[-1] == NO_TOKEN
    assert tokens[-1 - len(chat.answer.token_ids) : -1] == list(chat.answer.token_ids)
    assert all(token in tokens for token in question)
