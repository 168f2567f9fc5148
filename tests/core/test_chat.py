"""Chats over scripted models: what is chosen, and what was cut or broken never shows later."""

import json
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from mmspec.chat import captions
from mmspec.chat.captions import read_captions
from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.ground.errors import (
    BackendError,
    CheckpointError,
    ContextError,
    ImageError,
    UsageError,
)
from mmspec.prompt.conversation import Conversation, Message
from mmspec.prompt.images import decode_picture, open_picture
from support.scripted_engine import BLIND, OPTIONS, A, B, asked, check, picture, scripted_engine


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
    other = replace(captioner, fallback=engine.captioner)
    assert other.caption(replace(A, name="photos/b.png")).startswith("a red square")
    (tmp_path / "photos").mkdir()
    A.image.save(tmp_path / "photos" / "a.png")
    assert captioner.caption(replace(A, name="")) == "A red square."  # as requests send images
    with pytest.raises(UsageError, match="has no caption of an image"):
        captioner.caption(replace(B, name=""))
    read = replace(engine, captioner=captioner)
    check(read.chat(replace(OPTIONS, drafting="MC")), "What is this?", named[0])
    assert read.caption(named[0]) == engine.target.tokenizer.encode("image: A red square.")


def test_of_the_images_of_captions_only_the_one_that_was_sent_is_opened(tmp_path, monkeypatch):
    for number in range(9):
        Image.new("RGB", (8, 8 + number), "red").save(tmp_path / f"{number}.bmp")
    file = tmp_path / "captions.jsonl"
    lines = [{"image": f"{number}.bmp", "caption": str(number)} for number in range(9)]
    file.write_text("\n".join(map(json.dumps, lines)))
    paths = []
    opened = lambda path: paths.append(path) or open_picture(path)  # noqa: E731
    monkeypatch.setattr(captions, "open_picture", opened)
    sent = decode_picture((tmp_path / "7.bmp").read_bytes(), "")
    assert read_captions(file).caption(sent) == "7"
    assert paths == [tmp_path / "7.bmp"]


def test_an_interrupt_ends_the_probe_for_good(pair_engine, tmp_path, monkeypatch):
    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path))
    probe = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("mmspec.exactness.finding.find_exact_rows", probe)
    chat = replace(pair_engine, exactness={}).chat(replace(OPTIONS, exact="on"))
    with pytest.raises(KeyboardInterrupt):
        chat.reply("What is this?")
    assert probe.call_count == 1


def test_a_full_device_empties_the_caches_and_the_chat_goes_on(engine, monkeypatch):
    chat = engine.chat(OPTIONS)
    chat.reply("What is this?", A)
    full = Mock(side_effect=BackendError("the memory is full"))
    with monkeypatch.context() as patch:
        patch.setattr(chat.models.backend, "synchronize", full)
        with pytest.raises(BackendError):
            chat.reply("Why?")
    assert (chat.cache_bytes, len(chat.conversation.turns)) == (0, 1)
    chat.reply("Why?")
    assert chat.answer.statistics.cached_tokens == 0


def test_a_stream_has_its_answer_and_its_texts(engine):
    chat = engine.chat(OPTIONS)
    with chat.ask("What is this?", A) as stream:
        text = "".join(stream.texts())
    assert stream.answer is chat.answer
    assert stream.answer.text == text
    assert stream.answer.finish_reason in ("stop", "length")
    other = chat.ask("Why?")
    with other:
        text = next(filter(None, other.texts()))
    assert (other.answer.finish_reason, other.answer.text) == ("interrupted", text)
    with pytest.raises(StopIteration):
        next(other)
    _, turn = chat.conversation.turns
    assert (list(turn.answer), turn.answer_text) == (other.answer.token_ids, text)
    check(chat, "And now?")


def test_a_closed_chat_computes_its_prompt_anew_and_says_the_same(engine):
    with engine, engine.chat(OPTIONS) as chat:
        check(chat, "What is this?", A)
    encoded = engine.target.model.encoded
    check(chat, "Why?")
    assert chat.answer.statistics.cached_tokens == 0
    assert engine.target.model.encoded > encoded


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
    with pytest.raises(UsageError, match="a message of the text 'What': give a tuple"):
        Message("user", "What")
    with pytest.raises(UsageError, match="a message holds Image"):
        chat.ask(A.image)
    with pytest.raises(UsageError, match="the question is empty"):
        chat.reply(" \n")
    assert chat.conversation.turns == []


def test_a_prompt_beyond_the_target_is_said_before_any_work(engine):
    chat = engine.chat(OPTIONS)
    answer = chat.reply("What is this?", A)
    before, fed = list(chat.conversation.turns), chat._session.target.fed
    with pytest.raises(ContextError, match=r"take \d+ positions .* needs 8: scripted has 600"):
        chat.reply("What are these?", [picture(seed) for seed in range(40)])
    assert (chat.conversation.turns, chat._session.target.fed) == (before, fed)
    assert (engine.target.model.encoded, chat.answer) == (1, answer)
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


def test_a_conversation_is_resumed_by_the_tokens_it_was_written_in(engine):
    first, other = engine.chat(Options()), engine.chat(Options())
    asked(first, "a")
    turns = Conversation(None, list(first.conversation.turns))
    other.resume(turns)
    assert other.conversation is turns
    changed = Conversation(None, [replace(turns.turns[0], answer_text="something else")])
    with pytest.raises(UsageError, match="answer 1 was written in other tokens"):
        engine.chat(Options(), changed)
    with pytest.raises(UsageError, match="answer 1 was written in other tokens"):
        other.resume(changed)
    assert other.conversation is turns


@pytest.fixture
def text(engine):
    """An answer of six tokens."""
    return engine.chat(replace(OPTIONS, max_new_tokens=6)).reply("What is this?", A).text


def begun(engine, **options):
    """A chat with the first three tokens of this answer."""
    chat = engine.chat(replace(OPTIONS, max_new_tokens=3, **options))
    chat.reply("What is this?", A)
    return chat


def test_a_stop_string_that_begins_before_a_cut_ends_the_answer_that_goes_on(engine, text):
    end = len(begun(engine).answer.text)
    stop = text[end - 2 : end + 2]
    cut = begun(engine, stop_strings=(stop,))
    whole = engine.chat(replace(cut.options, max_new_tokens=6))
    whole.reply("What is this?", A)
    cut.extend().finish()
    assert cut.conversation.turns == whole.conversation.turns
    assert cut.conversation.turns[0].answer_text == text[: text.index(stop)]
    assert len(text[: text.index(stop)]) < end
    assert cut.answer.finish_reason == "stop"


@pytest.mark.parametrize("set_after", [False, True])
def test_an_answer_that_goes_on_repeats_no_letter_and_loses_none(engine, text, set_after):
    chat = begun(engine)
    shown = chat.answer.text
    chat.change(replace(chat.options, stop_strings=(shown if set_after else f"{shown[-2:]}\0",)))
    stream = chat.extend()
    assert "".join(stream.texts()) == text[len(shown) :]
    counts = stream.answer.statistics
    assert counts.cached_tokens == counts.prompt_tokens - 1  # the cut answer is not read again
    assert stream.answer.text == chat.conversation.turns[-1].answer_text == text


@pytest.mark.parametrize("more", ["retry", "extend"])
def test_an_answer_stays_that_is_interrupted_before_another_begins(engine, more):
    chat = engine.chat(OPTIONS)
    asked(chat, "What is this?", A)
    before = list(chat.conversation.turns)
    with getattr(chat, more)() as stream:
        next(stream)
    assert chat.conversation.turns == before
    check(chat, "Why?")


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


def test_options_take_the_numbers_of_numpy():
    sampling = Sampling(np.float32(0.5), np.int64(3), np.float16(0.75))
    tree = Tree(width=np.int8(2), nodes=np.int64(9))
    options = Options(seed=np.int64(5), gamma=np.int8(2), sampling=sampling, tree=tree)
    own = Options(seed=5, gamma=2, sampling=Sampling(0.5, 3, 0.75), tree=Tree(width=2, nodes=9))
    assert repr(options) == repr(own)
    assert Options(drafting="auto") == Options()
    with pytest.raises(UsageError, match="`temperature=nan`: give a finite number"):
        Options(sampling=Sampling(np.float32("nan")))
    with pytest.raises(UsageError, match="`gamma=0`: give a whole number from 1"):
        Options(gamma=np.int64(0))


def test_what_is_no_options_is_refused_by_name(engine):
    chat = engine.chat(OPTIONS)
    for refused in (lambda: engine.chat({"gamma": 3}), lambda: chat.change(None)):
        with pytest.raises(UsageError, match=r"`options=.+`: give an Options, such as"):
            refused()
