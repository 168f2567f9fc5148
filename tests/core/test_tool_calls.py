"""Calls of tools are read and written as chat templates do."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmspec.prompt.chat_template import LLAVA, ChatTemplate
from mmspec.prompt.chunks import answer_ids, render
from mmspec.prompt.conversation import Conversation, Message, Turn
from mmspec.prompt.tool_calls import Call, CallForm, call_form
from support.chat_templates import STYLES

QWEN = STYLES["Qwen2.5 with tools"].source
LLAMA = """{% for m in messages %}<|start|>{{ m.role }}
{% if loop.first and tools %}{% for tool in tools %}{{ tool | tojson(indent=4) }}
{% endfor %}{% endif %}{% if m.tool_calls %}{"name": "{{ m.tool_calls[0].function.name }}", \
"parameters": {{ m.tool_calls[0].function.arguments | tojson }}}{% else %}{{ m.content }}\
{% endif %}<|eot|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant
{% endif %}"""
FORMS = {
    QWEN: CallForm("<tool_call>\n", "arguments", "\n</tool_call>"),
    LLAMA: CallForm("", "parameters", ""),
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Of a place, as <|im_end|> says: été",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}
CALLS = [Call("weather", {"place": "Zürich"}), Call("weather", {"place": 'a "b"', "days": 2})]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
calls = st.builds(Call, st.text(min_size=1, max_size=6), st.dictionaries(st.text(), values))


@pytest.mark.parametrize("source", FORMS, ids=["marked", "bare"])
def test_a_template_says_how_it_writes_calls(source):
    assert call_form(ChatTemplate(source)) == FORMS[source]


@pytest.mark.parametrize("source", [LLAVA, STYLES["ChatML"].source, STYLES["gpt-oss"].source])
def test_a_template_without_calls_in_json_has_no_form(source):
    assert call_form(ChatTemplate(source)) is None


@settings(max_examples=15)
@given(st.sampled_from([*FORMS.values()]), st.text(max_size=9), st.lists(calls, min_size=1))
def test_what_is_written_is_read(form, text, some):
    if not form.mark:
        text, some = "", some[:1]
    written = form.write(text, some)
    assert form.read(written) == some
    starts = [form.beginning(written[:end]) for end in range(len(written) + 1)]
    assert starts == sorted(starts)
    assert starts[-1] <= len(text) + 1
    assert form.read(written[:-20]) in ([], some[:-1], some)


CALL = '<tool_call>{"name": "weather", "arguments": {"place": %s}}</tool_call>'
OTHERS = ["", "no call", "<tool_call>\nnot json\n</tool_call>", "<tool_call>[1]", "a <tool"]
OTHERS += [CALL % '"\\ud83d"', CALL % "1e999", "<tool_call>" + "[" * 100_000]


def test_other_text_has_no_calls():
    """Nor have half a character, an infinite number, and lists too deep to be read."""
    assert FORMS[QWEN].read(CALL % "1") == [Call("weather", {"place": 1})]
    for text in OTHERS:
        assert FORMS[QWEN].read(text) == []


def test_a_conversation_with_tools_is_what_transformers_writes(tokenizers, references):
    """The model's own tokens of a call are those of the history, and user text stays text."""
    tokenizer, template = tokenizers["byte-level"], ChatTemplate(QWEN)
    answer = FORMS[QWEN].write("", CALLS)
    turns = [
        Turn(Message("user", ("What?",)), answer_ids(answer, template, tokenizer), answer),
        Turn(Message("tool", ("rain",)), None, "", (Message("tool", ("sun",)),)),
    ]
    chunks = render(Conversation("Be brief.", turns, [WEATHER]), template, tokenizer)
    ids = [token for chunk in chunks for part in chunk.parts for token in part]
    functions = [{"name": call.name, "arguments": call.arguments} for call in CALLS]
    called = [{"type": "function", "function": function} for function in functions]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What?"},
        {"role": "assistant", "content": "", "tool_calls": called},
        {"role": "tool", "content": "sun"},
        {"role": "tool", "content": "rain"},
    ]
    expected = references["byte-level"].apply_chat_template(
        messages, tools=[WEATHER], chat_template=QWEN, tokenize=False, add_generation_prompt=True
    )
    assert tokenizer.decode(ids, skip_special=False).removeprefix("<s>") == expected
    end = tokenizer.token_id("<|im_end|>")
    assert ids.count(end) == expected.count("<|im_end|>") - json.dumps(WEATHER).count("<|im_end|>")
