"""`/v1/responses` and `/v1/completions`: the same answers in other objects."""

from dataclasses import replace

from mmspec.decoding.segment import Segment
from mmspec.diagnostics.check import feed
from support.live_server import Live, chunks_of, data_url, live, png, shown, text_of, words
from support.scripted_engine import scripted_engine

RESPONSES = "/v1/responses"
PICTURE = {"type": "input_image", "image_url": data_url(png()), "detail": "auto"}


def respond(server: Live, **body):
    return server.client.post(RESPONSES, json=body)


def user(content):
    return {"role": "user", "content": content}


SAID = {"role": "assistant", "content": [{"type": "output_text", "text": "b"}]}


CHAT = [user("a"), {"role": "assistant", "content": "b"}, user("c")]
ASKED = [
    ("What?", [user("What?")]),
    ([user([{"type": "input_text", "text": "a"}, PICTURE])], [user([words("a"), shown("red")])]),
    ([{"type": "message"} | user("a"), SAID, user("c")], CHAT),
]


def test_the_text_is_that_of_a_chat_completion(pair: Live):
    own = {"mmspec": {"details": True, "plain": True}, "stop": "a"}
    for asked, messages in ASKED:
        for fields in ({}, own):
            reply = respond(pair, input=asked, max_output_tokens=30, **fields).json()
            expected = pair.chat(messages, max_tokens=30, stop=fields.get("stop")).json()
            assert reply["output"][0]["content"][0]["text"] == text_of(expected)
        assert reply["mmspec"]["stats"]["drafted"] == 0


BEGIN = "created in_progress output_item.added content_part.added"
END = "output_text.done content_part.done output_item.done"


def test_a_stream_tells_openai_s_client_the_same_text_and_log_probabilities(
    pair: Live, sdk, monkeypatch
):
    alone = replace(pair.service.options, drafting="T")  # lookup remembers the first answer
    monkeypatch.setattr(pair.service, "options", alone)
    chat = pair.chat([user("What?")], max_tokens=9, logprobs=True, top_logprobs=2).json()
    fields = {"model": pair.service.model, "input": "What?", "max_output_tokens": 9}
    fields |= {"include": ["message.output_text.logprobs", "reasoning.encrypted_content"]}
    whole = sdk(pair).responses.create(**fields, top_logprobs=2)
    expected = chat["choices"][0]["logprobs"]["content"]
    assert [each.model_dump() for each in whole.output[0].content[0].logprobs] == expected
    events = list(sdk(pair).responses.create(**fields, top_logprobs=2, stream=True))
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[:4] == BEGIN.split()
    assert set(kinds[4:-4]) == {"output_text.delta"}
    assert kinds[-4:-1] == END.split()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas, [done, *_, last] = events[4:-4], events[-4:]
    assert "".join(event.delta for event in deltas) == text_of(chat)
    told = [entry.token for event in deltas for entry in event.logprobs]
    assert told == [entry.token for entry in done.logprobs] == [each["token"] for each in expected]
    last = last.response
    assert last.output[0].content == whole.output[0].content
    assert (last.output_text, last.status, last.top_logprobs) == (text_of(chat), "incomplete", 2)
    assert last.incomplete_details.reason == "max_output_tokens"
    assert last.usage.output_tokens == whole.usage.output_tokens


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
        asked = ({} if param.startswith("input") else {"input": "x"}) | body
        error = scripted.refusal(asked, RESPONSES)
        assert error["param"] == param
        assert "content" not in param or "input_text or input_image" in error["message"]


PROMPT = "USER: What do you know? ASSISTANT:"


def ask(server: Live, prompt=PROMPT, **fields):
    return server.client.post("/v1/completions", json={"prompt": prompt, "max_tokens": 8, **fields})


def test_the_target_s_own_tokens_continue_the_text(pair: Live):
    engine = pair.service.engine
    tokenizer = engine.target.tokenizer
    ids = [*tokenizer.prefix, *tokenizer.encode(PROMPT)]

    def continued():
        target = engine.target.model.open_target(pair.service.options.sampling)
        target.extend(Segment([ids]))
        for _ in range(8):
            ids.append(int(target.logits().argmax()))
            feed(target, ids[-1])
        return tokenizer.decode(ids)[len(tokenizer.decode(ids[:-8])) :]

    reply = ask(pair).json()
    text = reply["choices"][0]["text"]
    assert text == pair.service.queue.call(continued)
    assert (reply["object"], reply["choices"][0]["finish_reason"]) == ("text_completion", "length")
    assert ask(pair, mmspec={"plain": True}).json()["choices"] == reply["choices"]
    chunks = chunks_of(ask(pair, stream=True).text)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == text
    again = ask(pair, prompt=[PROMPT], stop=text[4:6]).json()
    assert again["choices"][0]["text"] == text[: text.index(text[4:6])]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_openai_s_client_reads_it_with_log_probabilities(pair: Live, sdk):
    fields = {"model": pair.service.model, "prompt": PROMPT, "max_tokens": 6, "logprobs": 2}
    choice = sdk(pair).completions.create(**fields).choices[0]
    told = choice.logprobs
    assert "".join(told.tokens) == choice.text
    assert [len(each) for each in (told.token_logprobs, told.top_logprobs)] == [6, 6]
    assert all(len(top) <= 2 for top in told.top_logprobs)
    for offset, token in zip(told.text_offset, told.tokens, strict=True):
        assert choice.text[offset:].startswith(token)
    parts = [chunk.choices[0] for chunk in sdk(pair).completions.create(**fields, stream=True)]
    offsets = [offset for part in parts if part.logprobs for offset in part.logprobs.text_offset]
    assert offsets == told.text_offset


def test_what_is_no_text_to_continue_is_refused(pair: Live):
    prompts = ("", ["a", "b"], [1, 2], "an <image>", "long " * 4000)
    others = {"echo": True, "suffix": "x", "best_of": 2, "logprobs": 21, "frequency_penalty": 0.5}
    for name, value in (*(("prompt", prompt) for prompt in prompts), *others.items()):
        body = {"prompt": PROMPT, name: value}
        assert pair.refusal(body, "/v1/completions")["param"] == name
    for fields in ({"presence_penalty": 0, "echo": False, "suffix": None}, {"prompt": "\n"}):
        assert ask(pair, **fields).status_code == 200


def test_what_a_template_writes_is_continued_as_in_a_chat(mini: Live):
    part = {"type": "text", "text": "What do you know?"}
    written = mini.service.engine.target.template.render([("user", [part])])
    assert "<s>" in written
    chat = mini.ask(part["text"], max_tokens=8)
    reply = ask(mini, written).json()
    assert reply["choices"][0]["text"].removeprefix(" ") == chat["choices"][0]["message"]["content"]
    assert reply["usage"]["prompt_tokens"] == chat["usage"]["prompt_tokens"]
