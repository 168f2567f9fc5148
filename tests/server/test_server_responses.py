"""`/v1/responses` and `/v1/completions`: the same answers in other objects."""

from dataclasses import replace

import pytest

from mmspec.decoding.segment import Segment
from mmspec.diagnostics.single_turn import feed
from support.live_server import Live, chunks_of, data_url, live, png, shown, text_of, words
from support.scripted_engine import scripted_engine

RESPONSES = "/v1/responses"
PICTURE = {"type": "input_image", "image_url": data_url(png()), "detail": "auto"}


def respond(server: Live, **body):
    return server.client.post(RESPONSES, json=body)


def user(content):
    return {"role": "user", "content": content}


SAID = {"role": "assistant", "content": [{"type": "output_text", "text": "b"}]}
ASKED = [
    ("What?", [user("What?")]),
    (
        [user([{"type": "input_text", "text": "What?"}, PICTURE])],
        [user([words("What?"), shown("red")])],
    ),
    (
        [{"type": "message"} | user("a"), SAID, user("c")],
        [user("a"), {"role": "assistant", "content": "b"}, user("c")],
    ),
]


def test_its_own_fields_and_stops_are_those_of_a_chat_completion(pair: Live):
    own = {"mmspec": {"details": True, "plain": True}, "stop": "a", "max_output_tokens": 30}
    reply = respond(pair, input="What?", **own).json()
    assert reply["mmspec"]["stats"]["drafted"] == 0
    expected = pair.chat([user("What?")], max_tokens=30, stop="a").json()
    assert reply["output"][0]["content"][0]["text"] == text_of(expected)


@pytest.mark.parametrize(("asked", "messages"), ASKED)
def test_the_text_is_that_of_a_chat_completion(pair: Live, sdk, asked, messages):
    expected = text_of(pair.chat(messages, max_tokens=9).json())
    fields = {"model": pair.service.model, "input": asked, "max_output_tokens": 9}
    whole = sdk(pair).responses.create(**fields)
    assert whole.output_text == expected
    events = list(sdk(pair).responses.create(**fields, stream=True))
    kinds = [event.type for event in events]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == expected
    begin = "created in_progress output_item.added content_part.added"
    end = "output_text.done content_part.done output_item.done"
    assert kinds[:4] == [f"response.{kind}" for kind in begin.split()]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert kinds[-4:-1] == [f"response.{kind}" for kind in end.split()]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1].response
    assert (last.output_text, last.status) == (expected, whole.status) == (expected, "incomplete")
    assert last.incomplete_details.reason == "max_output_tokens"
    assert last.usage.output_tokens == whole.usage.output_tokens


def test_log_probabilities_are_those_of_a_chat_completion(pair: Live, sdk, monkeypatch):
    alone = replace(pair.service.options, drafting="T")  # lookup remembers the first answer
    monkeypatch.setattr(pair.service, "options", alone)
    asked = pair.chat([user("What?")], max_tokens=9, logprobs=True, top_logprobs=2)
    expected = asked.json()["choices"][0]["logprobs"]["content"]
    fields = {
        "model": pair.service.model,
        "input": "What?",
        "max_output_tokens": 9,
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "top_logprobs": 2,
    }
    [item] = sdk(pair).responses.create(**fields).output
    assert [entry.model_dump() for entry in item.content[0].logprobs] == expected
    *events, last = sdk(pair).responses.create(**fields, stream=True)
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


def test_the_server_has_a_system_text_for_requests_that_bring_none(directory, scripted: Live):
    asked = user("What?")
    short, long = ({"role": "system", "content": text} for text in ("Be short.", "Be long, rhyme."))
    with live(lambda: scripted_engine(directory), system="Be short.") as server:
        for sent, meant in (([asked], [short, asked]), ([long, asked], [long, asked])):
            reply, expected = server.chat(sent).json(), scripted.chat(meant).json()
            assert text_of(reply) == text_of(expected)
            assert reply["usage"]["prompt_tokens"] == expected["usage"]["prompt_tokens"]
        for each in (server, scripted):  # instructions come first
            text = respond(each, input="What?", instructions=long["content"]).json()
            assert text["output"][0]["content"][0]["text"] == text_of(expected)
            assert text["usage"]["input_tokens"] == expected["usage"]["prompt_tokens"]


REFUSED = [
    *(({}, "input"), ({"input": []}, "input"), ({"input": 3}, "input")),
    ({"input": [{"role": "assistant", "content": "x"}]}, "input"),
    *(({"input": " "}, "input"), ({"input": "a b " * 9000}, "input")),
    ({"input": [{"type": "function_call_output"}]}, "input[0].type"),
    ({"input": [user([{"type": "input_file"}])]}, "input[0].content[0].type"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"tools": [{"type": "web_search"}]}, "tools"),
    ({"background": True}, "background"),
    ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"model": "gpt-5"}, "model"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"include": "message.output_text.logprobs"}, "include"),
]


def test_what_cannot_be_done_is_refused(scripted: Live):
    for body, param in REFUSED:
        reply = respond(scripted, **({} if param.startswith("input") else {"input": "x"}) | body)
        assert reply.status_code in (400, 404)
        assert reply.json()["error"]["param"] == param
        if "content" in param:
            assert "input_text or input_image" in reply.json()["error"]["message"]


PROMPT = "USER: What do you know? ASSISTANT:"


def ask(server: Live, prompt=PROMPT, **fields):
    return server.client.post("/v1/completions", json={"prompt": prompt, "max_tokens": 8, **fields})


def expected(server: Live, count):
    """The target's own continuation of the prompt's tokens, one after another."""
    engine = server.service.engine
    tokenizer = engine.target.tokenizer
    ids = [*tokenizer.prefix, *tokenizer.encode(PROMPT)]

    def continued():
        target = engine.target.model.open_target(server.service.options.sampling)
        target.extend(Segment([ids]))
        for _ in range(count):
            ids.append(int(target.logits().argmax()))
            feed(target, ids[-1])
        return tokenizer.decode(ids)[len(tokenizer.decode(ids[:-count])) :]

    return server.service.queue.call(continued)


def test_the_target_s_own_tokens_continue_the_text(pair: Live):
    reply = ask(pair).json()
    assert reply["object"] == "text_completion"
    assert reply["choices"][0]["text"] == expected(pair, 8)
    assert reply["choices"][0]["finish_reason"] == "length"
    plain = ask(pair, mmspec={"plain": True}).json()
    assert plain["choices"] == reply["choices"]
    whole = "".join(c["choices"][0]["text"] for c in chunks_of(ask(pair, stream=True).text))
    assert whole == reply["choices"][0]["text"]
    again = ask(pair, prompt=[PROMPT], stop=whole[4:6]).json()
    assert again["choices"][0]["text"] == whole[: whole.index(whole[4:6])]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_what_a_template_writes_is_continued_as_in_a_chat(mini: Live):
    part = {"type": "text", "text": "What do you know?"}
    written = mini.service.engine.target.template.render([("user", [part])])
    assert "<s>" in written
    chat = mini.ask(part["text"], max_tokens=8)
    reply = ask(mini, written).json()
    assert reply["choices"][0]["text"].removeprefix(" ") == chat["choices"][0]["message"]["content"]
    assert reply["usage"]["prompt_tokens"] == chat["usage"]["prompt_tokens"]


def test_openai_s_client_reads_it_with_log_probabilities(pair: Live, sdk):
    fields = {"model": pair.service.model, "prompt": PROMPT, "max_tokens": 6, "logprobs": 2}
    choice = sdk(pair).completions.create(**fields).choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text
    assert len(choice.logprobs.token_logprobs) == 6
    assert all(len(top) <= 2 for top in choice.logprobs.top_logprobs)
    for offset, token in zip(choice.logprobs.text_offset, choice.logprobs.tokens, strict=True):
        assert choice.text[offset:].startswith(token)
    parts = [chunk.choices[0] for chunk in sdk(pair).completions.create(**fields, stream=True)]
    offsets = [offset for part in parts if part.logprobs for offset in part.logprobs.text_offset]
    assert offsets == choice.logprobs.text_offset


def test_what_is_no_text_to_continue_is_refused(pair: Live):
    prompts = ("", ["a", "b"], [1, 2], "an <image>", "long " * 4000)
    others = {"echo": True, "suffix": "x", "best_of": 2, "logprobs": 21, "frequency_penalty": 0.5}
    for name, value in (*(("prompt", prompt) for prompt in prompts), *others.items()):
        reply = ask(pair, **{"prompt": PROMPT, name: value})
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == name
    assert ask(pair, presence_penalty=0, echo=False, suffix=None).status_code == 200
    assert ask(pair, "\n").status_code == 200
