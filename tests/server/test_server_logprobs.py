"""Log-probabilities and the field `mmspec`: the model's own figures, drafted or not."""

import numpy as np
import pytest

from mmspec.diagnostics.check import feed, prefilled_target
from mmspec.prompt.conversation import Message
from mmspec.prompt.images import decode_picture
from support.live_server import Live, accepted, png, shown, text_of, words

ASKED = [{"role": "user", "content": [shown("red"), words("What?")]}]
FIELDS = {"logprobs": True, "top_logprobs": 3}


def expected(server: Live, count):
    """What the target's logits say, token after token, decoded greedily."""
    message = Message("user", (decode_picture(png(), ""), "What?"))
    engine = server.service.engine

    def rows():
        target = prefilled_target(engine, message)
        for _ in range(count):
            logits = target.logits().astype(np.float64)
            logprobs = logits - logits.max()
            yield logprobs - np.log(np.exp(logprobs).sum())
            feed(target, int(logits.argmax()))

    return server.service.queue.call(lambda: list(rows()))


def test_they_are_the_log_softmax_of_the_target_s_logits(pair: Live):
    reply = pair.chat(ASKED, **FIELDS).json()
    found, rows = reply["choices"][0]["logprobs"]["content"], expected(pair, 12)
    assert len(found) == reply["usage"]["completion_tokens"] == 12
    assert accepted(reply) > 0
    for entry, row in zip(found, rows, strict=True):
        assert entry["logprob"] == pytest.approx(row.max(), abs=1e-4)
        top = [likely["logprob"] for likely in entry["top_logprobs"]]
        assert top == pytest.approx(sorted(row)[::-1][:3], abs=1e-4)
        assert entry["top_logprobs"][0]["token"] == entry["token"]
        assert bytes(entry["bytes"]).decode(errors="replace") == entry["token"]
    reply = pair.chat(ASKED, **FIELDS, temperature=2, seed=4).json()
    found = reply["choices"][0]["logprobs"]["content"]
    assert any(e["token"] != e["top_logprobs"][0]["token"] for e in found)  # it was sampled
    assert all(e["logprob"] <= e["top_logprobs"][0]["logprob"] for e in found)


DETAILS = {"details": True}


def parts(chunks):
    """The events with text."""
    return [chunk for chunk in chunks if "drafted" in chunk.get("mmspec", {})]


def test_every_event_says_whether_its_text_was_drafted(pair: Live):
    told = parts(pair.chunks(ASKED, mmspec=DETAILS))
    texts = [part["choices"][0]["delta"]["content"] for part in told]
    assert "".join(texts) == text_of(pair.chat(ASKED).json())
    answered = pair.service.queue.call(lambda: pair.service.cache._chats[-1].answer)
    tokens = answered.rounds[0].tokens[: answered.rounds[0].accepted]
    first = pair.service.engine.target.tokenizer.stream().push(tokens)
    assert texts[0] == first.removeprefix(" ") != ""
    drafted = [part["mmspec"]["drafted"] for part in told]
    assert (drafted[0], {*drafted}) == (True, {True, False})


def test_the_prompt_is_seen_to_be_read_before_the_answer(pair: Live):
    chunks = pair.chunks([{"role": "user", "content": "What else? " * 60}], mmspec=DETAILS)
    read = [chunk["mmspec"]["prompt"] for chunk in chunks if "prompt" in chunk.get("mmspec", {})]
    stats = chunks[-1]["mmspec"]["stats"]
    total = stats["prompt_tokens"] - stats["cached_tokens"]
    assert read[-1] == {"done": total, "total": total}
    assert read == sorted(read, key=lambda each: each["done"])
    assert "prompt" in chunks[chunks.index(parts(chunks)[0]) - 1]["mmspec"]


def test_plain_decoding_says_the_same_with_a_round_for_every_token(pair: Live):
    drafted = pair.chat(ASKED, mmspec=DETAILS).json()
    plain = pair.chat(ASKED, mmspec={"details": True, "plain": True}).json()
    again = pair.chat(ASKED, mmspec=DETAILS).json()
    assert text_of(plain) == text_of(drafted) == text_of(again)
    assert plain["mmspec"].keys() == {"seed", "notes", "speed_up", "plain_reason", "stats"}
    stats = plain["mmspec"]["stats"]
    assert (stats["rounds"], stats["drafted"]) == (12, 0)
    assert 0 < accepted(drafted) == drafted["mmspec"]["stats"]["accepted"]
    assert again["mmspec"]["stats"]["rounds"] < 12
    assert again["mmspec"]["speed_up"] > 0
    cached = [r["usage"]["prompt_tokens_details"]["cached_tokens"] for r in (plain, again)]
    assert cached == [plain["usage"]["prompt_tokens"] - 1] * 2


def test_without_the_field_a_reply_says_its_seed_and_notes_alone(pair: Live):
    assert pair.chat(ASKED, seed=7).json()["mmspec"] == {"seed": 7, "notes": []}
    told = [chunk["mmspec"] for chunk in pair.chunks(ASKED, seed=8) if "mmspec" in chunk]
    assert told == [{"seed": 8, "notes": []}]
