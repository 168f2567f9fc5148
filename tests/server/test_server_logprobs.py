"""Log-probabilities: the model's own, one entry a token, drafted or not, streamed or not."""

from itertools import product

import numpy as np
import pytest

from mmspec.chat.options import Options
from mmspec.diagnostics.single_turn import feed, prefilled_target
from mmspec.prompt.conversation import Message
from mmspec.prompt.images import decode_picture
from support.bundled import SAMPLES
from support.live_server import Live, data_url, png, shown, text_of, words

ASKED = [{"role": "user", "content": [shown("red"), words("What?")]}]
FIELDS = {"logprobs": True, "top_logprobs": 3}


def content(reply):
    return (reply["choices"][0]["logprobs"] or {"content": []})["content"]


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
    found, rows = content(reply), expected(pair, 12)
    assert len(found) == reply["usage"]["completion_tokens"] == 12
    assert reply["usage"]["completion_tokens_details"]["accepted_prediction_tokens"] > 0
    for entry, row in zip(found, rows, strict=True):
        assert entry["logprob"] == pytest.approx(row.max(), abs=1e-4)
        top = [likely["logprob"] for likely in entry["top_logprobs"]]
        assert top == pytest.approx(sorted(row)[::-1][:3], abs=1e-4)
        assert entry["top_logprobs"][0]["token"] == entry["token"]
        assert bytes(entry["bytes"]).decode(errors="replace") == entry["token"]


def test_a_sampled_token_need_not_be_the_likeliest(pair: Live):
    found = content(pair.chat(ASKED, **FIELDS, temperature=2, seed=4).json())
    others = [e for e in found if e["token"] != e["top_logprobs"][0]["token"]]
    assert others
    assert all(e["logprob"] <= e["top_logprobs"][0]["logprob"] for e in found)


def test_a_stream_has_the_same_entries(mini: Live):
    whole = mini.chat(ASKED, logprobs=True, max_tokens=20).json()
    chunks = mini.chunks(ASKED, logprobs=True, max_tokens=20)
    choices = [chunk["choices"][0] for chunk in chunks]
    streamed = [e for c in choices if c["logprobs"] for e in c["logprobs"]["content"]]
    assert [e["token"] for e in streamed] == [e["token"] for e in content(whole)]
    assert "".join(e["token"] for e in streamed) == text_of(whole)
    assert all(e["top_logprobs"] == [] and e["logprob"] <= 0 for e in streamed)


def test_drafts_change_nothing_before_a_stop_string(mini: Live, monkeypatch):
    monkeypatch.setattr(mini.service, "options", Options(max_new_tokens=40, gamma=4))
    url = data_url((SAMPLES / "shapes.png").read_bytes())
    asked = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
    text = text_of(mini.chat(asked).json())
    stops = (" " + text.split()[2], text[4:9], text[1], "!")
    for stop, most in product(stops, (40, 8)):
        fields = {"stop": [stop], "max_tokens": most, **FIELDS}
        plain, drafted = (
            mini.chat(asked, **fields, mmspec={"plain": plain}).json() for plain in (True, False)
        )
        assert said(drafted) == said(plain)
        shown, entries = text_of(plain), content(plain)
        before = b"".join(bytes(entry["bytes"]) for entry in entries[:-1]).decode()
        assert text.startswith(shown)
        assert shown.startswith(before)
        assert before != shown or not shown


def said(reply):
    """What a client sees, with rounded log-probabilities: forwards of other sizes round too."""
    choice, tokens = reply["choices"][0], reply["usage"]["completion_tokens"]
    entries = [(entry["bytes"], round(entry["logprob"], 3)) for entry in content(reply)]
    return text_of(reply), choice["finish_reason"], tokens, entries
