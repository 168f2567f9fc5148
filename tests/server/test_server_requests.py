"""Requests that are refused, each with OpenAI's error object naming the field."""

import pytest

from support.live_server import CHAT, Live, data_url, png, shown

USER = [{"role": "user", "content": "What?"}]
CLIP = data_url(b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom", "video/mp4")
IMAGE = "messages[0].content[0].image_url.url"


def part(value):
    return [{"role": "user", "content": [value]}]


def image(url):
    return part({"type": "image_url", "image_url": {"url": url}})


REFUSED = {
    "no messages": ({}, "messages"),
    "no list": ({"messages": "What?"}, "messages"),
    "an empty list": ({"messages": []}, "messages"),
    "a message that is no object": ({"messages": ["What?"]}, "messages[0]"),
    "no role": ({"messages": [{"content": "x"}]}, "messages[0].role"),
    "an unknown role": ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    "no content": ({"messages": [{"role": "user"}]}, "messages[0].content"),
    "a number": ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    "an unknown part": (
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        "messages[0].content[0].type",
    ),
    "a video": (
        {"messages": part({"type": "video_url", "video_url": {"url": CLIP}})},
        "messages[0].content[0].type",
    ),
    "a video of the newer API": (
        {"messages": part({"type": "input_video", "video_url": CLIP})},
        "messages[0].content[0].type",
    ),
    "a file part": (
        {"messages": part({"type": "file", "file": {"file_data": CLIP}})},
        "messages[0].content[0].type",
    ),
    "a video as an image": ({"messages": image(CLIP)}, IMAGE),
    "an answer last": ({"messages": [*USER, {"role": "assistant", "content": "x"}]}, "messages"),
    "a late system message": (
        {"messages": [*USER, {"role": "system", "content": "x"}]},
        "messages[1].role",
    ),
    "an image in an answer": (
        {"messages": [*USER, {"role": "assistant", "content": [shown("red")]}, *USER]},
        "messages[1].content[0].image_url.url",
    ),
    "another model": ({"messages": USER, "model": "gpt-4o"}, "model"),
    "two answers": ({"messages": USER, "n": 2}, "n"),
    "a tool without a name": (
        {"messages": USER, "tools": [{"type": "function"}]},
        "tools[0].function.name",
    ),
    "a schema": (
        {"messages": USER, "response_format": {"type": "json_schema"}},
        "response_format.json_schema.schema",
    ),
    "thinking in words": (
        {"messages": USER, "chat_template_kwargs": {"enable_thinking": "no"}},
        "chat_template_kwargs.enable_thinking",
    ),
    "another variable of templates": (
        {"messages": USER, "chat_template_kwargs": {"documents": ["x"]}},
        "chat_template_kwargs.documents",
    ),
    "a penalty": ({"messages": USER, "presence_penalty": 1}, "presence_penalty"),
    "a hot temperature": ({"messages": USER, "temperature": 2.5}, "temperature"),
    "a temperature in words": ({"messages": USER, "temperature": "hot"}, "temperature"),
    "a true temperature": ({"messages": USER, "temperature": True}, "temperature"),
    "top_p of 0": ({"messages": USER, "top_p": 0}, "top_p"),
    "a fraction of a token": ({"messages": USER, "max_tokens": 1.5}, "max_tokens"),
    "no tokens": ({"messages": USER, "max_completion_tokens": 0}, "max_completion_tokens"),
    "five stops": ({"messages": USER, "stop": list("abcde")}, "stop"),
    "an empty stop": ({"messages": USER, "stop": ""}, "stop"),
    "a stream in words": ({"messages": USER, "stream": "yes"}, "stream"),
    "details in words": ({"messages": USER, "mmspec": {"details": "yes"}}, "mmspec.details"),
    "details that are no object": ({"messages": USER, "mmspec": 1}, "mmspec"),
    "top_logprobs alone": ({"messages": USER, "top_logprobs": 3}, "top_logprobs"),
    "too many logprobs": (
        {"messages": USER, "logprobs": True, "top_logprobs": 21},
        "top_logprobs",
    ),
    "logprobs of a number": ({"messages": USER, "logprobs": 3}, "logprobs"),
    "a seed of text": ({"messages": USER, "seed": "7"}, "seed"),
    "not base64": ({"messages": image("data:image/png;base64,%%%")}, IMAGE),
    "no image": ({"messages": image("data:image/png;base64,aGVsbG8=")}, IMAGE),
    "a damaged image": ({"messages": image(data_url(png()[:60]))}, IMAGE),
    "an address": ({"messages": image("https://example.com/cat.png")}, IMAGE),
    "a file": ({"messages": image("file:///etc/passwd")}, IMAGE),
    "a path": ({"messages": image("/etc/passwd")}, IMAGE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_and_named(scripted: Live, name):
    body, param = REFUSED[name]
    reply = scripted.client.post(CHAT, json=body)
    error = reply.json()["error"]
    assert reply.status_code == (404 if param == "model" else 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert param.rpartition(".")[2] in error["message"]
    assert len(error["message"]) < 300


def test_thinking_is_refused_where_the_template_does_not_read_it(scripted: Live):
    body = {"messages": USER, "chat_template_kwargs": {"enable_thinking": False}}
    reply = scripted.client.post(CHAT, json=body)
    assert reply.status_code == 400
    assert "does not read enable_thinking" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"messages": NaN}',
        b"[" * 100_000,
        b'{"user": "\\ud800"}',
    ],
)
def test_a_body_that_is_no_json_object_is_refused(scripted: Live, body):
    reply = scripted.client.post(CHAT, content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 400
    assert "JSON" in reply.json()["error"]["message"]
