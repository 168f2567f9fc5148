"""Requests that are refused, each with OpenAI's error object naming the field."""

from dataclasses import replace

import pytest

from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.ground.errors import UsageError
from mmspec.prompt.chat_template import ChatTemplate
from mmspec_server.app import Service
from mmspec_server.chat_request import read_chat, read_responses
from mmspec_server.decoding import DecodingQueue
from mmspec_server.endpoint import Fields
from mmspec_server.settings import ServerSettings
from support.chat_templates import STYLES
from support.live_server import CHAT, Live, data_url, png, shown
from support.scripted_engine import scripted_engine

USER = [{"role": "user", "content": "What?"}]
CLIP = data_url(b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom", "video/mp4")


def part(value):
    return [{"role": "user", "content": [value]}]


def image(url):
    return part({"type": "image_url", "image_url": {"url": url}})


ANSWER = {"role": "assistant", "content": "x"}
MESSAGES = [
    ("What?", ""),
    ([], ""),
    (["What?"], "[0]"),
    ([{"content": "x"}], "[0].role"),
    ([{"role": "robot", "content": "x"}], "[0].role"),
    ([{"role": "user"}], "[0].content"),
    ([{"role": "user", "content": 3}], "[0].content"),
    (part({"type": "input_audio"}), "[0].content[0].type"),
    (part({"type": "video_url", "video_url": {"url": CLIP}}), "[0].content[0].type"),
    ([*USER, ANSWER], ""),
    ([{"role": "user", "content": " "}], ""),
    ([*USER, {"role": "system", "content": "x"}], "[1].role"),
    ([*USER, ANSWER | {"content": [shown("red")]}, *USER], "[1].content[0].image_url.url"),
    *(
        (image(url), "[0].content[0].image_url.url")
        for url in (CLIP, data_url(png()[:60]), "file:///etc/passwd")
    ),
]
"""Messages that are refused, and where."""
FIELDS = [
    ({"model": "gpt-4o"}, "model"),
    ({"n": 2}, "n"),
    ({"chat_template_kwargs": {"enable_thinking": "no"}}, "chat_template_kwargs.enable_thinking"),
    ({"chat_template_kwargs": {"documents": ["x"]}}, "chat_template_kwargs.documents"),
    ({"presence_penalty": 1}, "presence_penalty"),
    *(({"temperature": value}, "temperature") for value in (2.5, "hot", True)),
    ({"top_p": 0}, "top_p"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    *(({"stop": value}, "stop") for value in (list("abcde"), "")),
    ({"stream": "yes"}, "stream"),
    ({"mmspec": {"details": "yes"}}, "mmspec.details"),
    ({"mmspec": 1}, "mmspec"),
    ({"mmspec": {"repeat_limit": -1}}, "mmspec.repeat_limit"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": 3}, "logprobs"),
    *(({"seed": value}, "seed") for value in ("7", 2**63)),
]
"""Fields that are refused, and how they are named."""


def test_what_cannot_be_done_is_refused_and_named(scripted: Live):
    bodies = [({"messages": messages}, f"messages{place}") for messages, place in MESSAGES]
    bodies += [({"messages": USER, **fields}, param) for fields, param in FIELDS]
    for body, param in [({}, "messages"), *bodies]:
        error = scripted.refusal(body)
        assert error["param"] == param, body
        assert param.rpartition(".")[2] in error["message"]
        assert len(error["message"]) < 300
        assert body or error["message"].startswith("messages is missing: it must be a list")


def test_more_than_any_prompt_holds_is_refused_unread(scripted: Live, monkeypatch):
    monkeypatch.setattr("mmspec.prompt.template_sandbox.MAX_OUTPUT", 1000)
    long = [{"role": "user", "content": "a" * 2000}]
    for messages, reason in ((long, "more than 1000 characters"), (USER * 9000, "9000 of them")):
        assert reason in scripted.refusal({"messages": messages})["message"]


def test_a_request_may_set_the_limit_that_the_note_of_a_repetition_names():
    limited = Options(repeat_limit=200)
    asked = read_chat(Fields({"messages": USER, "mmspec": {"repeat_limit": 0}}), limited)
    assert asked.options.repeat_limit == 0
    assert read_chat(Fields({"messages": USER}), limited).options == limited


def test_the_command_s_options_may_lie_beyond_those_of_requests():
    own = Options(sampling=Sampling(2.5), max_new_tokens=2_000_000, repeat_limit=2_000_000)
    for read, body in ((read_chat, {"messages": USER}), (read_responses, {"input": "What?"})):
        assert read(Fields(body), own).options == own


def test_thinking_is_refused_where_the_template_does_not_read_it(scripted: Live, mini):
    """The error does not say where the template lies."""
    body = {"messages": USER, "chat_template_kwargs": {"enable_thinking": False}}
    for server in (scripted, mini):
        said = server.refusal(body)["message"]
        assert "does not read enable_thinking" in said
        assert str(server.service.engine.target.directory) not in said
    body["chat_template_kwargs"]["enable_thinking"] = None  # as if it were left out
    assert scripted.client.post(CHAT, json=body).status_code == 200


def test_thinking_is_the_command_s_where_a_request_does_not_say(directory):
    engine = scripted_engine(directory)

    def chunks(own, **fields):
        service = Service(engine, Options(), ServerSettings(thinking=own), DecodingQueue(1))
        request = read_chat(Fields({"messages": USER, **fields}), Options())
        return service._prepare(request)[1].chunks

    with pytest.raises(UsageError, match="does not read enable_thinking"):
        chunks(False)
    engine.target = replace(engine.target, template=ChatTemplate(STYLES["Qwen3"].source))
    on, off = ({"chat_template_kwargs": {"enable_thinking": it}} for it in (True, False))
    assert chunks(False) == chunks(None, **off) == chunks(True, **off)
    assert chunks(True) == chunks(False, **on) != chunks(False)
