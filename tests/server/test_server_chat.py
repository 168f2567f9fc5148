"""Answers over HTTP: the text of `mmspec generate`, in OpenAI's objects, whole and streamed."""

import io
import json

import pytest

from mmspec.prompt.chat_template import ChatTemplate
from mmspec_cli.main import main
from support.live_server import CHAT, Live, png, shown, text_of, words

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


@pytest.mark.parametrize("colours", [[], ["red"], ["red", "blue"]])
@pytest.mark.parametrize(("fields", "options"), [({}, []), (SAMPLED, SAMPLED_OPTIONS)])
def test_the_text_is_that_of_generate_plain_and_drafted(
    pair: Live, generate, colours, fields, options
):
    content = [words("What do you see?"), *map(shown, colours)]
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
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [last["usage"][name] for name in counts] == [whole["usage"][name] for name in counts]
    assert all(part["usage"] is None for part in parts)
    choices = [part["choices"][0] for part in parts]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["delta"].get("content", "") for c in choices) == text_of(whole)
    assert [c["finish_reason"] for c in choices[:-1]] == [None] * (len(choices) - 1)
    assert choices[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert len(choices) > 4


def picture(colour: str):
    from mmspec.prompt.images import decode_picture

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


def test_max_tokens_and_the_reason_of_the_end(scripted: Live):
    for name in ("max_tokens", "max_completion_tokens"):
        reply = scripted.ask("What?", **{name: 3})
        assert reply["usage"]["completion_tokens"] == 3
        assert reply["choices"][0]["finish_reason"] == "length"


def test_an_answer_fills_the_context_at_most(scripted: Live):
    reply = scripted.ask("one two " * 98, max_tokens=100_000)
    assert reply["usage"]["total_tokens"] == 600
    refused = scripted.chat([{"role": "user", "content": "one two " * 1000}])
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"


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


def test_unknown_fields_are_ignored(scripted: Live):
    extras = {"user": "me", "metadata": {"a": 1}, "reasoning_effort": "low", "store": False}
    extras |= {"n": 1, "presence_penalty": 0, "tools": [], "response_format": {"type": "text"}}
    plain = scripted.ask("What?")
    assert text_of(scripted.ask("What?", **extras, model="scripted")) == text_of(plain)


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
    assert get(CHAT).status_code == 405


def test_of_a_conversation_that_does_not_fit_little_is_read(scripted: Live, monkeypatch):
    """Reading takes time that grows with the square of the turns."""
    rendered, render = [], ChatTemplate.render

    def counted(template, messages, **options):
        rendered.append(len(messages))
        return render(template, messages, **options)

    monkeypatch.setattr(ChatTemplate, "render", counted)
    spoken = [{"role": role, "content": "word"} for role in ("user", "assistant") * 3000]
    refused = scripted.chat([*spoken, {"role": "user", "content": "And?"}])
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert max(rendered) < 1000
