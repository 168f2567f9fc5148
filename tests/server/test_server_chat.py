"""Answers over HTTP: the text of a chat, in OpenAI's objects, whole and streamed."""

from dataclasses import replace

import pytest

from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.prompt.chat_template import ChatTemplate
from mmspec.prompt.images import Picture, decode_picture
from mmspec_server.chat_request import read_chat
from mmspec_server.endpoint import Fields
from mmspec_server.images import ImageReader
from mmspec_server.prompts import prepare, read_conversation
from mmspec_server.settings import ServerSettings
from support.live_server import CHAT, Live, png, shown, text_in, text_of, words
from support.scripted_engine import scripted_engine


def picture(colour: str):
    return decode_picture(png(colour), "")


TURNS = [
    ("What is in this picture?", ["red", "blue"]),
    ("Is there a circle?", []),
    ("And in this one?", ["blue"]),
]


@pytest.mark.parametrize("fields", [{}, {"temperature": 0.9, "top_p": 0.95, "seed": 7}], ids=str)
def test_the_text_of_every_turn_is_that_of_a_plain_chat(mini: Live, fields):
    plain, messages = replace(mini.service.options, drafting="none", max_new_tokens=20), []
    if fields:
        plain = replace(plain, sampling=Sampling(0.9, top_p=0.95), seed=7)
    chat = mini.service.engine.chat(plain)
    for question, colours in TURNS:
        expected = chat.reply(question, [*map(picture, colours)]).text
        messages.append({"role": "user", "content": [*map(shown, colours), words(question)]})
        assert text_of(mini.chat(messages, **fields, max_tokens=20).json()) == expected != ""
        messages.append({"role": "assistant", "content": expected})


def test_a_stream_has_the_same_text_in_chunks_and_ends_with_usage(pair: Live):
    question = [{"role": "user", "content": [shown("red"), words("What?")]}]
    whole = pair.chat(question).json()
    *parts, last = pair.chunks(question, stream_options={"include_usage": True})
    assert {chunk["object"] for chunk in parts} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in [*parts, last]}) == 1
    assert last["choices"] == []
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert last["usage"][name] == whole["usage"][name]
    assert all(part["usage"] is None for part in parts)
    choices = [part["choices"][0] for part in parts]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert text_in(parts) == text_of(whole)
    *ends, end = (choice["finish_reason"] for choice in choices)
    assert (set(ends), end) == ({None}, whole["choices"][0]["finish_reason"])
    assert len(ends) > 3


SENT = [
    ("assistant", "Hello."),
    ("user", [words("first"), shown("red"), words("is it?"), shown("blue")]),
    *(("user", "Well?"), ("assistant", "Yes."), ("assistant", "And no.")),
    ("user", [shown("blue"), words("this")]),
]
IN_ORDER = (
    "{% for message in messages %}<{{ message.role }}>{% if message.content is string %}"
    "{{ message.content }}{% else %}{% for part in message.content %}{{ part.text or '<image>' }}"
    "{% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
RENDERED = (
    "<assistant>Hello.<user>first<image>isit?<image><user>Well?<assistant>Yes."
    "<assistant>Andno.<user><image>this<assistant>"
)


def test_messages_are_rendered_in_the_order_in_which_they_were_sent(directory):
    engine = scripted_engine(directory)
    engine.target = replace(engine.target, template=ChatTemplate(IN_ORDER))
    sent = [{"role": role, "content": content} for role, content in SENT]
    request = read_chat(Fields({"messages": sent}), Options())
    conversation = read_conversation(request, ImageReader(ServerSettings()), 9, None, "")
    parts = [part for chunk in prepare(engine, conversation, "").chunks for part in chunk.parts]
    decode, pictures = engine.target.tokenizer.decode, [p for p in parts if isinstance(p, Picture)]
    texts = "".join("<image>" if part in pictures else decode(part) for part in parts)
    assert texts.replace(" ", "") == RENDERED
    assert pictures == [picture(colour) for colour in ("red", "blue", "blue")]


EXTRAS = {"user": "me", "metadata": {"a": 1}, "reasoning_effort": "low", "store": False, "n": 1}
EXTRAS |= {"presence_penalty": 0, "tools": [], "response_format": {"type": "text"}}


def test_an_answer_ends_at_its_limit_and_fills_the_context_at_most(scripted: Live):
    """Unknown fields are ignored."""
    for fields in ({"max_tokens": 3}, {"max_completion_tokens": 3, **EXTRAS}):
        reply = scripted.ask("What?", **fields)
        assert reply["usage"]["completion_tokens"] == 3
        assert reply["choices"][0]["finish_reason"] == "length"
    reply = scripted.ask("one two " * 98, max_tokens=100_000)
    assert reply["usage"]["total_tokens"] == 600


def test_text_ends_before_a_stop_string_streamed_or_not(scripted: Live):
    text = text_of(scripted.ask("What?", max_tokens=40))
    stop = text[len(text) // 2 :][:3]
    before = text[: text.index(stop)]
    reply = scripted.ask("What?", max_tokens=40, stop=stop)
    assert text_of(reply) == before
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["usage"]["completion_tokens"] < 40
    asked = [{"role": "user", "content": "What?"}]
    assert text_in(scripted.chunks(asked, max_tokens=40, stop=["never written", stop])) == before


def test_models_and_health(scripted: Live):
    get = scripted.client.get
    assert get("/health").json() == {"status": "ok", "model": "scripted"}
    [card] = get("/v1/models").json()["data"]
    assert (card["id"], card["object"], card["owned_by"]) == ("scripted", "model", "mmspec")
    assert get("/v1/models/scripted").json() == card
    for address in ("/v1/models/other", "/v1/nothing"):
        reply = get(address)
        assert reply.status_code == 404
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    wrong = get(CHAT)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert wrong.json()["error"]["message"] == "this address takes POST"


def test_of_a_conversation_that_does_not_fit_little_is_read(scripted: Live, monkeypatch):
    tokenizer = scripted.service.engine.target.tokenizer
    encoded, encode = [], tokenizer.encode_parts

    def counted(parts, **options):
        encoded.extend([parts] if options.get("continues") and len(parts) > 1 else [])
        return encode(parts, **options)

    monkeypatch.setattr(tokenizer, "encode_parts", counted)
    spoken = [{"role": role, "content": "word"} for role in ("user", "assistant") * 3000]
    error = scripted.refusal({"messages": [*spoken, {"role": "user", "content": "And?"}]})
    assert error["code"] == "context_length_exceeded"
    assert len(encoded) < 1000
