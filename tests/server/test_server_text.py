"""`/v1/completions`: a text is continued as it is, without a chat template."""

from openai import OpenAI

from mmspec.decoding.segment import Segment
from mmspec.diagnostics.single_turn import feed
from support.live_server import Live, chunks_of

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


def test_openai_s_client_reads_it_with_log_probabilities(pair: Live):
    client = OpenAI(base_url=f"{pair.client.base_url}/v1", api_key="none")
    fields = {"model": pair.service.model, "prompt": PROMPT, "max_tokens": 6, "logprobs": 2}
    choice = client.completions.create(**fields).choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text
    assert len(choice.logprobs.token_logprobs) == 6
    assert all(len(top) <= 2 for top in choice.logprobs.top_logprobs)
    for offset, token in zip(choice.logprobs.text_offset, choice.logprobs.tokens, strict=True):
        assert choice.text[offset:].startswith(token)
    parts = [chunk.choices[0] for chunk in client.completions.create(**fields, stream=True)]
    offsets = [offset for part in parts if part.logprobs for offset in part.logprobs.text_offset]
    assert offsets == choice.logprobs.text_offset


def test_what_cannot_be_done_is_refused(pair: Live):
    prompts = ("", ["a", "b"], [1, 2], "an <image>", "long " * 4000)
    others = {"echo": True, "suffix": "x", "best_of": 2, "logprobs": 21, "frequency_penalty": 0.5}
    for name, value in (*(("prompt", prompt) for prompt in prompts), *others.items()):
        reply = ask(pair, **{"prompt": PROMPT, name: value})
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == name
    assert ask(pair, presence_penalty=0, echo=False, suffix=None).status_code == 200
