"""Where an answer ends: at stop strings, when it repeats itself, within a constraint."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_loop import PROMPT, SAMPLINGS, chain_and_trees, opened, rounds_of

from mmspec.chat.answer import Answer
from mmspec.chat.answer_text import LONGEST, AnswerText, repetition_end, text_after
from mmspec.decoding.constraint import ConstrainedTarget
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.statistics import Likelihood, Round
from mmspec.prompt.text_stream import TextStream
from support.scripted import logits
from support.scripted_engine import OPTIONS, A, check

WORDS = [" a", "b", "ab", " ", "<0xC3>", "<0xA9>", "", "c a", "b\n"]
BYTES = {WORDS.index("<0xC3>"): 0xC3, WORDS.index("<0xA9>"): 0xA9}

tokens = st.lists(st.integers(0, len(WORDS) - 1), min_size=1, max_size=14)
stops = st.lists(st.text("abcé ", min_size=1, max_size=4), max_size=3)


def decoded(ids):
    content = b"".join(bytes([BYTES[id]]) if id in BYTES else WORDS[id].encode() for id in ids)
    return content.decode(errors="replace")


def read(rounds, stops):
    """The text with drafted letters in capitals, the tokens that count, and those reported."""
    text = AnswerText(TextStream(decoded, WORDS.__getitem__), stops)
    counted, shown, reported = 0, "", []
    for ids, accepted in rounds:
        likelihoods = tuple(Likelihood(id, -1.0) for id in ids)
        round_, pieces = text.push(Round(ids, 4, 4, accepted, likelihoods=likelihoods))
        counted += len(round_.tokens)
        shown, reported = add(pieces, shown, reported)
        if text.is_over:
            break
    shown, reported = add(text.finish(), shown, reported)
    return shown, counted, reported, text.is_over


def add(pieces, shown, reported):
    shown += "".join(piece.accepted.upper() + piece.own for piece in pieces)
    return shown, [*reported, *(each.token for piece in pieces for each in piece.likelihoods)]


@given(tokens, stops, st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=14))
@example([0, 1, 7, 1], [" a", "bc"], [(3, 2)])
@example([4, 5, 1], ["b"], [(3, 3)])
def test_drafts_change_neither_text_nor_tokens_nor_likelihoods(ids, stops, sizes):
    rounds, rest = [], ids
    for size, accepted in [*sizes, *[(1, 0)] * len(ids)]:
        run, rest = rest[:size], rest[size:]
        rounds += [(run, min(accepted, len(run)))] if run else []
    shown, counted, reported, is_over = read(rounds, stops)
    plain, *others = read([([id], 0) for id in ids], stops)
    assert (shown.lower(), [counted, reported, is_over]) == (plain, others)
    # Plain decoding, from the letters: the text ends before the stop string that is whole first.
    whole = decoded(ids).removeprefix(" ")
    assert plain == (whole if not is_over else whole[: len(plain)])
    assert is_over == any(stop in whole for stop in stops)
    assert not is_over or whole[len(plain) :].startswith(tuple(stops))
    assert reported == (ids[: len(reported)] if is_over else ids)
    assert len(decoded(reported).removeprefix(" ")) >= len(plain)


def test_withheld_text_keeps_its_origin():
    rounds = [([1, 1], 1), ([0, 1], 1), ([1], 0)]  # Bb, " Ab", b
    shown, *_ = read(rounds, ["bb ab?"])
    assert shown == "Bb Abb"


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
    cut = None
    for start in range(0, len(tokens), size):
        found = repetition_end(tokens[:start], tokens[start : start + size], limit)
        if found:
            cut = start + found
            break
    assert cut == slow_cut(tokens, limit)


def periodic(seed, sequence, vocabulary):
    """Logits of a target that says 5, 6, 7 by position; other seeds, of drafts, err at times."""
    token = 5 + len(sequence) % 3 if seed == 0 or len(sequence) % 4 else 9
    return np.eye(vocabulary, dtype=np.float32)[token]


@pytest.mark.parametrize("limit", [20, 22])
def test_an_answer_that_repeats_itself_ends_at_one_token_however_it_is_drafted(
    engine, monkeypatch, limit
):
    monkeypatch.setattr("support.scripted.logits", periodic)
    options = replace(OPTIONS, max_new_tokens=60, repeat_limit=limit)
    plain = engine.chat(replace(options, drafting="none")).reply("What is this?", A)
    chat = engine.chat(options)
    drafted = chat.reply("What is this?", A)
    assert plain.token_ids == drafted.token_ids
    assert len(plain.token_ids) == drafted.statistics.tokens == limit
    assert drafted.statistics.accepted > 0
    assert (drafted.finish_reason, plain.finish_reason) == ("repetition", "repetition")
    assert any(f"the last {limit} tokens repeat themselves" in note for note in drafted.notes)
    assert list(chat.conversation.turns[0].answer) == drafted.token_ids
    check(chat, "And this?", A)


class Alternating:
    """Allows even and odd tokens in turn."""

    def __init__(self, size):
        self.odd, self.count = np.arange(size) % 2, 0

    def mask(self):
        return self.odd == self.count % 2

    def advance(self, token):
        assert self.mask()[token]
        self.count += 1


def test_an_answer_that_goes_on_stays_within_its_constraint(engine):
    within = partial(Alternating, engine.target.model.config.text.vocab_size)
    chats = [engine.chat(replace(OPTIONS, constraint=within, max_new_tokens=n)) for n in (3, 6)]
    answers = [chat.reply("What is this?", A) for chat in chats]
    assert answers[0].token_ids == answers[1].token_ids[:3]
    assert chats[0].extend().finish().token_ids == answers[1].token_ids[3:]


def test_an_answer_within_a_constraint_may_repeat_itself(engine, monkeypatch):
    monkeypatch.setattr("support.scripted.logits", periodic)
    within = partial(Alternating, engine.target.model.config.text.vocab_size)
    options = replace(OPTIONS, max_new_tokens=40, repeat_limit=20, constraint=within)
    answer = engine.chat(options).reply("What is this?", A)
    assert answer.token_ids[-6:] == answer.token_ids[-12:-6]
    assert (len(answer.token_ids), answer.finish_reason) == (40, "length")


STOP = (0,)


class Steps:
    """Allows tokens that differ from the last one by 1, 2 or 5, and the stop token after a 7."""

    def __init__(self):
        self.last = 3

    def mask(self):
        steps = {(self.last + step) % 11 for step in (1, 2, 5)} | {0}
        return np.array([t in steps and (t or self.last == 7) for t in range(11)], bool)

    def advance(self, token):
        assert self.mask()[token]
        assert token not in STOP
        self.last = token


def expected(sampling, seed, count):
    """Choice by choice, from the scripted logits."""
    constraint, sequence = Steps(), list(PROMPT)
    for _ in range(count):
        row = np.where(constraint.mask(), logits(0, sequence, 11), -np.inf)
        keys = HOST.keys(Noise(seed, len(sequence)), 1)
        sequence.append(int(HOST.sampler(sampling).tokens(row[None], keys)[0]))
        if sequence[-1] in STOP:
            break
        constraint.advance(sequence[-1])
    return sequence[len(PROMPT) :]


@chain_and_trees
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLINGS["both"]])
def test_drafts_do_not_change_what_a_constraint_allows(sampling, tree):
    target, drafter = opened(sampling=sampling, tree=tree, wrong_every=4)
    within = ConstrainedTarget(target, Steps(), sampling, STOP)
    rounds = rounds_of(within, drafter, gamma=4, max_tokens=25, seed=1, stop=STOP)
    tokens = [token for each in rounds for token in each.tokens]
    assert tokens == expected(sampling, 1, 25)
    assert target.sequence[len(PROMPT) :] == tokens
    assert drafter.length == target.length


@pytest.mark.parametrize("interrupted", [True, False])
def test_an_answer_that_was_cut_within_a_character_goes_on_with_the_rest(tokenizers, interrupted):
    for tokenizer in tokenizers.values():
        ids = tokenizer.encode("one 🙂 é two")
        for cut in range(len(ids)):
            text = ""
            for begun, new in (((), ids[:cut]), (ids[:cut], ids[cut:])):
                answer = Answer(text, beginning=tuple(begun))
                follows = text_after(answer, (), tokenizer, ())
                shown = follows.push(Round([*new], 0, 0, 0))[1]
                shown += [] if interrupted and not begun else follows.finish()
                text = answer.text + "".join(piece.text for piece in shown)
            assert text == tokenizer.decode(ids).removeprefix(" ")
