"""Chats over scripted models: what is chosen, and what was cut or broken never shows later."""

import json
from dataclasses import replace
from functools import partial
from statistics import median_low

import numpy as np
import pytest
from PIL import Image

from mmspec.chat.answer import Piece
from mmspec.chat.captions import read_captions
from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.drafters.views import LOOKUP, PLAIN
from mmspec.ground.errors import CheckpointError, ContextError, ImageError, UsageError
from mmspec.prompt.conversation import Conversation
from support.scripted_engine import BLIND, OPTIONS, A, B, asked, check, picture, scripted_engine


def fed(chat):
    return chat._session.target.fed


def test_a_tokenizer_of_another_model_is_named(directory):
    few = replace(BLIND, text=replace(BLIND.text, vocab_size=40))
    chat = scripted_engine(directory, few, None).chat(OPTIONS)
    with pytest.raises(CheckpointError, match=r"writes token \d+, and the model has 40"):
        chat.reply("What is this?")
    assert chat.conversation.turns == []


@pytest.mark.parametrize("gamma", [1, 3, "auto"])
def test_an_answer_takes_one_forward_a_round_and_none_after_its_last_token(engine, gamma):
    calls = []
    engine.target.model.fault = calls.append
    chat = engine.chat(replace(OPTIONS, gamma=gamma))
    for text in ("What is this?", "Why?"):
        calls.clear()
        answer = chat.reply(text, [A])
        assert calls.count("target.verify") == answer.statistics.rounds
        assert calls[-1] == "target.committed"


def test_images_are_encoded_and_captioned_once(engine):
    chat = engine.chat(replace(OPTIONS, drafting="MC"))
    asked(chat, "What is this?", A)
    asked(chat, "And this?", A)
    asked(engine.chat(replace(OPTIONS, drafting="MC")), "Again?", A)
    assert engine.target.model.encoded == 1
    assert engine.draft.model.encoded == 1
    assert engine.captioner.asked == [A.digest]


def test_captions_come_from_a_file_by_path_or_by_name(engine, tmp_path):
    file = tmp_path / "captions.jsonl"
    lines = [("photos/a.png", "A red\n square."), ("p2", "Two discs.")]
    texts = [json.dumps({"image": image, "caption": text}) for image, text in lines]
    file.write_text("\n".join([*texts, ""]))
    captioner = read_captions(file)
    named = [replace(A, name=name) for name in ("photos/a.png", "else/where/p2")]
    assert [captioner.caption(image) for image in named] == ["A red square.", "Two discs."]
    with pytest.raises(UsageError, match=r"captions\.jsonl has no caption of photos/b\.png"):
        captioner.caption(replace(A, name="photos/b.png"))
    other = replace(captioner, other=engine.captioner)
    assert other.caption(replace(A, name="photos/b.png")).startswith("a red square")
    read = replace(engine, captioner=captioner)
    check(read.chat(replace(OPTIONS, drafting="MC")), "What is this?", named[0])
    assert read.caption(named[0]) == engine.target.tokenizer.encode("image: A red square.")


def test_a_stream_has_its_answer_and_its_texts(engine):
    chat = engine.chat(OPTIONS)
    with chat.ask("What is this?", A) as stream:
        text = "".join(stream.texts())
    assert stream.answer is chat.answer
    assert stream.answer.text == text
    assert stream.answer.finish_reason in ("stop", "length")
    other = chat.ask("Why?")
    with other:
        while not other.answer.text:
            next(other)
    assert other.answer.finish_reason == "interrupted"
    assert len(chat.conversation.turns) == 2
    with pytest.raises(StopIteration):
        next(other)


def test_a_closed_chat_computes_its_prompt_anew_and_says_the_same(engine):
    with engine, engine.chat(OPTIONS) as chat:
        check(chat, "What is this?", A)
    encoded = engine.target.model.encoded
    check(chat, "Why?")
    assert chat.answer.statistics.cached_tokens == 0
    assert engine.target.model.encoded > encoded


def test_the_gain_is_told_by_the_conversation_s_own_plain_rounds(engine):
    chat = engine.chat(OPTIONS)
    assert chat.reply("What is this?", A).speed_up is None  # no plain round yet
    chat.speculate = False
    plain = chat.reply("And this?", A)
    assert plain.plain_seconds == median_low(
        round_.draft_seconds + round_.verify_seconds for round_ in plain.rounds
    )
    assert plain.speed_up is None
    chat.speculate = True
    drafted = chat.reply("Why?")
    statistics = drafted.statistics
    statistics.seconds["decode"] = statistics.rounds * drafted.plain_seconds * 2
    assert drafted.speed_up == pytest.approx(statistics.block_efficiency / 2)
    statistics.seconds["decode"] /= 4  # where all but the plain rounds were undisturbed
    assert drafted.speed_up == statistics.block_efficiency


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


def test_equal_letters_of_other_branches_are_another_drafter(engine):
    """Another pooled size, or other weights, of the same letters."""
    chat = engine.chat(replace(OPTIONS, drafting="MP", pool=4))
    check(chat, "What is this?", A)
    for number, changed in enumerate(({"pool": 1}, {"weights": (3.0, 1.0)}), start=2):
        chat.change(replace(chat.options, **changed))
        for text in ("Why?", "And now?"):
            check(chat, text)
            assert len(engine.draft.model.branches) == number


def test_what_is_no_image_is_refused_and_never_sent_as_words(engine):
    chat = engine.chat(OPTIONS)
    with pytest.raises(ImageError, match=r"photo\.jpg: cannot be read"):
        chat.ask("What is this?", ["photo.jpg"])
    with pytest.raises(ImageError, match="given as bytes"):
        chat.ask("What is this?", [b"\x89PNG"])
    with pytest.raises(ImageError, match="an image: 0 x 3 pixels; give one that has some"):
        chat.ask("What is this?", Image.new("RGB", (0, 3)))
    with pytest.raises(ImageError, match="one side is over 500 times the other"):
        chat.ask("What is this?", Image.new("RGB", (501, 1)))
    with pytest.raises(UsageError, match="a message holds Image"):
        chat.ask(A.image)
    with pytest.raises(UsageError, match="the question is empty"):
        chat.reply(" \n")
    assert chat.conversation.turns == []


def test_a_prompt_beyond_the_target_is_said_before_any_work(engine):
    chat = engine.chat(OPTIONS)
    asked(chat, "What is this?", A)
    before = list(chat.conversation.turns), fed(chat)
    with pytest.raises(ContextError, match=r"take \d+ positions .* needs 8: scripted has 600"):
        chat.reply("What are these?", [picture(seed) for seed in range(40)])
    assert (chat.conversation.turns, fed(chat)) == before
    assert engine.target.model.encoded == 1
    check(chat, "Why?")


def test_an_answer_that_cannot_be_tried_again_stays(engine, monkeypatch):
    chat = engine.chat(OPTIONS)
    asked(chat, "What is this?", A)
    before = list(chat.conversation.turns)
    monkeypatch.setattr("mmspec.chat.chat.TYPICAL_ANSWER", 599)
    chat.options = replace(OPTIONS, max_new_tokens=599)
    with pytest.raises(ContextError):
        list(chat.retry())
    assert chat.conversation.turns == before
    chat.options = OPTIONS
    check(chat, "Why?")


def test_an_interrupt_before_an_answer_begins_leaves_the_conversation(engine, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    chat = engine.chat(OPTIONS)
    asked(chat, "What is this?", A)
    before = list(chat.conversation.turns)
    monkeypatch.setattr("mmspec.chat.loaded_model.render", interrupted)
    for ask in (lambda: chat.reply("Why?"), lambda: list(chat.retry())):
        with pytest.raises(KeyboardInterrupt):
            ask()
    assert chat.conversation.turns == before


def test_an_interrupted_answer_stays_as_far_as_it_got(engine):
    chat = engine.chat(OPTIONS)
    answering = chat.ask("What is this?", [A])
    pieces = []
    while len(pieces) < 2:
        event = next(answering)
        pieces += [event] if isinstance(event, Piece) else []
    answering.close()
    assert chat.answer.finish_reason == "interrupted"
    assert chat.answer.text == "".join(piece.text for piece in pieces)
    turn = chat.conversation.turns[0]
    assert (list(turn.answer), turn.answer_text) == (chat.answer.token_ids, chat.answer.text)
    check(chat, "Why?")


def test_a_conversation_is_resumed_by_the_tokens_it_was_written_in(engine):
    first, other = engine.chat(Options()), engine.chat(Options())
    asked(first, "a")
    turns = Conversation(None, list(first.conversation.turns))
    other.resume(turns)
    assert other.conversation is turns
    changed = Conversation(None, [replace(turns.turns[0], answer_text="something else")])
    with pytest.raises(UsageError, match="answer 1 was written in other tokens"):
        other.resume(changed)
    assert other.conversation is turns


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


class Alternating:
    """Allows even and odd tokens in turn."""

    def __init__(self, size):
        self.odd, self.count = np.arange(size) % 2, 0

    def allowed(self):
        return self.odd == self.count % 2

    def advance(self, token):
        assert self.allowed()[token]
        self.count += 1


def test_an_answer_that_goes_on_stays_within_its_constraint(engine):
    within = partial(Alternating, engine.target.model.config.text.vocab_size)
    chats = [engine.chat(replace(OPTIONS, constraint=within, max_new_tokens=n)) for n in (3, 6)]
    answers = [chat.reply("What is this?", A) for chat in chats]
    assert answers[0].token_ids == answers[1].token_ids[:3]
    assert chats[0].extend().finish().token_ids == answers[1].token_ids[3:]


def test_another_kind_of_draft_length_drafts_another_tree(directory):
    looking = replace(scripted_engine(directory, draft=None), draftless="lookup")
    chat = looking.chat(OPTIONS)
    for gamma in (3, "auto", 3, 5):
        chat.change(replace(OPTIONS, gamma=gamma))
        before = chat._drafter
        check(chat, AGAIN)
        assert chat._drafter.drafter._tree == looking.tree_of(chat.options, LOOKUP)
    assert chat._drafter is before


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
        ({"drafting": "MT", "weights": 0.5}, "a tuple of numbers"),
        ({"constraint": 3}, "a function or None"),
    ],
)
def test_an_option_of_another_kind_is_refused_by_name(wrong, allowed):
    with pytest.raises(UsageError, match=rf"^`\w+=.+`: give {allowed}"):
        Options(**wrong)


def test_what_is_no_options_is_refused_by_name(engine):
    chat = engine.chat(OPTIONS)
    for refused in (lambda: engine.chat({"gamma": 3}), lambda: chat.change(None)):
        with pytest.raises(UsageError, match=r"`options=.+`: give an Options, such as"):
            refused()


def test_the_default_drafting_has_a_name():
    assert Options(drafting="auto") == Options()
