"""`/v1/responses`: the same answers in the newer API's objects and typed events."""

import openai
import pytest

from support.live_server import Live, data_url, live, png, shown, text_of, words
from support.scripted_engine import scripted_engine

RESPONSES = "/v1/responses"
PICTURE = {"type": "input_image", "image_url": data_url(png()), "detail": "auto"}


def respond(server: Live, **body):
    return server.client.post(RESPONSES, json=body)


@pytest.fixture
def client(pair: Live):
    base = f"{pair.client.base_url}/v1"
    with openai.OpenAI(base_url=base, api_key="none", max_retries=0) as it:
        yield it


@pytest.mark.parametrize(
    ("asked", "messages"),
    [
        ("What?", [{"role": "user", "content": "What?"}]),
        ([{"role": "user", "content": "What?"}], [{"role": "user", "content": "What?"}]),
        (
            [{"role": "user", "content": [{"type": "input_text", "text": "What?"}, PICTURE]}],
            [{"role": "user", "content": [words("What?"), shown("red")]}],
        ),
        (
            [
                {"type": "message", "role": "user", "content": "a"},
                {"role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
                {"role": "user", "content": "c"},
            ],
            [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": "c"},
            ],
        ),
    ],
)
def test_the_text_is_that_of_a_chat_completion(pair: Live, client, asked, messages):
    expected = text_of(pair.chat(messages, max_tokens=9).json())
    whole = client.responses.create(model=pair.service.model, input=asked, max_output_tokens=9)
    assert whole.output_text == expected
    stream = client.responses.create(
        model=pair.service.model, input=asked, max_output_tokens=9, stream=True
    )
    events = list(stream)
    kinds = [event.type for event in events]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == expected
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert kinds[-4:-1] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1].response
    assert (last.output_text, last.status) == (expected, whole.status) == (expected, "incomplete")
    assert last.incomplete_details.reason == "max_output_tokens"
    assert last.usage.output_tokens == whole.usage.output_tokens


def test_log_probabilities_are_those_of_a_chat_completion(pair: Live, client):
    asked = pair.chat(
        [{"role": "user", "content": "What?"}], max_tokens=9, logprobs=True, top_logprobs=2
    )
    expected = asked.json()["choices"][0]["logprobs"]["content"]
    fields = {
        "model": pair.service.model,
        "input": "What?",
        "max_output_tokens": 9,
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "top_logprobs": 2,
    }
    [item] = client.responses.create(**fields).output
    assert [entry.model_dump() for entry in item.content[0].logprobs] == expected
    *events, last = client.responses.create(**fields, stream=True)
    told = [
        entry.token
        for event in events
        if event.type == "response.output_text.delta"
        for entry in event.logprobs
    ]
    assert told == [entry["token"] for entry in expected]
    [done] = [event for event in events if event.type == "response.output_text.done"]
    assert [entry.token for entry in done.logprobs] == told
    assert last.response.output[0].content[0].logprobs == item.content[0].logprobs
    assert last.response.top_logprobs == 2


def test_instructions_come_first(scripted: Live):
    text = respond(scripted, input="What?", instructions="Be short.").json()
    system = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "What?"}]
    assert text["output"][0]["content"][0]["text"] == text_of(scripted.chat(system).json())
    plain = respond(scripted, input="What?").json()
    assert text["usage"]["input_tokens"] > plain["usage"]["input_tokens"]


def test_the_server_has_a_system_text_for_requests_that_bring_none(directory, scripted: Live):
    asked = {"role": "user", "content": "What?"}
    short, long = ({"role": "system", "content": text} for text in ("Be short.", "Be long, rhyme."))
    with live(lambda: scripted_engine(directory), system="Be short.") as server:
        for sent, meant in (([asked], [short, asked]), ([long, asked], [long, asked])):
            reply, expected = server.chat(sent).json(), scripted.chat(meant).json()
            assert text_of(reply) == text_of(expected)
            assert reply["usage"]["prompt_tokens"] == expected["usage"]["prompt_tokens"]
        own = [respond(each, input="What?", instructions="Sing.") for each in (server, scripted)]
    assert own[0].json()["usage"] == own[1].json()["usage"]


def part(kind):
    return [{"role": "user", "content": [{"type": kind}]}]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": 3}, "input"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "input"),
        ({"input": [{"type": "function_call_output"}]}, "input[0].type"),
        ({"input": part("input_video")}, "input[0].content[0].type"),
        ({"input": part("input_file")}, "input[0].content[0].type"),
        ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": "x", "tools": [{"type": "web_search"}]}, "tools"),
        ({"input": "x", "background": True}, "background"),
        ({"input": "x", "text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "x", "model": "gpt-5"}, "model"),
        ({"input": "x", "top_logprobs": 2}, "top_logprobs"),
        ({"input": "x", "include": "message.output_text.logprobs"}, "include"),
    ],
)
def test_what_cannot_be_done_is_refused(scripted: Live, body, param):
    reply = respond(scripted, **body)
    assert reply.status_code in (400, 404)
    assert reply.json()["error"]["param"] == param
    if "content" in param:
        assert "input_text or input_image" in reply.json()["error"]["message"]
