"""Answers over HTTP: the text of `mmspec generate`, in OpenAI's objects, whole and streamed."""

import io
import json
from dataclasses import replace

import pytest

from mmspec.chat.options import Options
from mmspec.prompt.chat_template import ChatTemplate
from mmspec.prompt.images import Picture, decode_picture
from mmspec_cli.main import main
from mmspec_server.chat_request import read_chat
from mmspec_server.endpoint import Fields
from mmspec_server.images import ImageReader
from mmspec_server.prompts import prepare, read_conversation
from mmspec_server.settings import ServerSettings
from support.live_server import CHAT, Live, png, shown, text_of, words
from support.scripted_engine import scripted_engine

NAME = "scripted"


@pytest.fixture
def generate(pair_paths, tmp_path, monkeypatch, capsys):
    """`generate("What?", ["red"], "--seed", "3")`: the command's text."""

    def text(question: str, colours=(), *options: str) -> str:
        files = []
        for colour in colours:
            files.append(tmp_path / f"{colour}.png")
            files[-1].write_bytes(png(colour))
        target, draft = map(str, pair_paths)
        models = f"--model {target} --draft {draft} --backend torch --max-new-tokens 12".split()
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        command = ["generate", *map(str, files), "--prompt", question, *models, *options]
        assert main([*command, "--json"]) == 0  # the terminal leaves control characters out
        return json.loads(capsys.readouterr().out)["text"]

    return text


SAMPLED = {"temperature": 0.9, "top_p": 0.95, "seed": 7}
SAMPLED_OPTIONS = ["--temperature", "0.9", "--top-p", "0.95", "--seed", "7"]


@pytest.mark.parametrize(
    ("colours", "fields", "options"),
    [([], {}, []), (["red"], SAMPLED, SAMPLED_OPTIONS), (["red", "blue"], {}, [])],
)
def test_the_text_is_that_of_generate_plain_and_drafted(
    pair: Live, generate, colours, fields, options
):
    content = [*map(shown, colours), words("What do you see?")]
    reply = pair.ask(content, **fields)
    plain = generate("What do you see?", colours, *options, "--drafting", "none")
    assert plain.strip()
    assert text_of(reply) == plain == generate("What do you see?", colours, *options)


def test_a_stream_has_the_same_text_in_chunks_and_ends_with_usage(pair: Live):
    question = [{"role": "user", "content": [shown("red"), words("What?")]}]
    whole = pair.chat(question).json()
    chunks = pair.chunks(question, stream_options={"include_usage": True})
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    *parts, last = chunks
    assert last["choices"] == []
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert last["usage"][name] == whole["usage"][name]
    assert all(part["usage"] is None for part in parts)
    choices = [part["choices"][0] for part in parts]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["delta"].get("content", "") for c in choices) == text_of(whole)
    *ends, end = (choice["finish_reason"] for choice in choices)
    assert (set(ends), end) == ({None}, whole["choices"][0]["finish_reason"])
    assert len(ends) > 3


def picture(colour: str):
    return decode_picture(png(colour), "")


QUESTIONS = [
    ("What is in this picture?", ["red"]),
    ("Is there a circle?", []),
    ("And in this one?", ["blue"]),
]


def test_later_turns_are_those_of_a_chat(mini: Live):
    chat = mini.service.engine.chat(mini.service.options)
    messages = []
    for question, colours in QUESTIONS:
        expected = chat.reply(question, list(map(picture, colours))).text
        messages.append({"role": "user", "content": [words(question), *map(shown, colours)]})
        assert text_of(mini.chat(messages).json()) == expected
        messages.append({"role": "assistant", "content": expected})


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
    chunks = prepare(
        engine, read_conversation(request, ImageReader(ServerSettings()), 9), ""
    ).chunks
    decode = engine.target.tokenizer.decode
    parts = [part for chunk in chunks for part in chunk.parts]
    texts = "".join("<image>" if isinstance(part, Picture) else decode(part) for part in parts)
    assert texts.replace(" ", "") == RENDERED
    pictures = [part for part in parts if isinstance(part, Picture)]
    assert pictures == [picture(colour) for colour in ("red", "blue", "blue")]


def test_what_the_template_refuses_is_the_requests_fault(scripted: Live, monkeypatch):
    refusing = ChatTemplate("{{ raise_exception('users must alternate') }}")
    engine = scripted.service.engine
    monkeypatch.setattr(engine, "target", replace(engine.target, template=refusing))
    reply = scripted.chat([{"role": "user", "content": "x"}])
    assert (reply.status_code, "users must alternate" in reply.text) == (400, True)


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
    chunks = scripted.chunks(asked, max_tokens=40, stop=["never written", stop])
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content", "") for delta in deltas) == before


def test_models_and_health(scripted: Live):
    get = scripted.client.get
    assert get("/health").json() == {"status": "ok", "model": NAME}
    [card] = get("/v1/models").json()["data"]
    assert (card["id"], card["object"], card["owned_by"]) == (NAME, "model", "mmspec")
    assert get(f"/v1/models/{NAME}").json() == card
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
    refused = scripted.chat([*spoken, {"role": "user", "content": "And?"}])
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert len(encoded) < 1000
