"""Tools: described to the model by its template, and their calls read from its answers."""

import json
from dataclasses import replace

import pytest

from mmspec.chat.options import Options
from mmspec.prompt.chat_template import ChatTemplate
from support.chat_templates import STYLES
from support.live_server import Live, live, only, text_in
from support.scripted_engine import scripted_engine
from support.speaker import Speaker, in_parts

jsonschema = pytest.importorskip("jsonschema")

FUNCTION = {"name": "weather", "parameters": {"type": "object"}}
TOOLS = [{"type": "function", "function": FUNCTION}]
ASKED = [{"role": "user", "content": "What weather is it in Zürich?"}]
ANY = {"type": "json_object"}
PLACES = {"$defs": {"place": {"enum": ["Zürich", "Bern"]}}}
SCHEMAS = {"weather": only({"place": {"$ref": "#/$defs/place"}}, **PLACES), "time": only({})}
SEVERAL = [
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in SCHEMAS.items()
]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"place": "Zürich"}}\n</tool_call>'


def calling(engine):
    """The target of an engine, with a template that writes calls."""
    return replace(engine.target, template=ChatTemplate(STYLES["Qwen2.5 with tools"].source))


@pytest.fixture
def server(directory):
    engine = scripted_engine(directory)
    engine.target = calling(engine)
    with live(lambda: engine, Options(max_new_tokens=5000)) as server:
        yield server


@pytest.fixture
def caller(monkeypatch):
    """Answers, three letters at a time."""
    caller = Speaker(in_parts(f"I look. {CALL}\n{CALL}"))
    monkeypatch.setattr("mmspec_server.app.answer", caller)
    return caller


def read(calls):
    return [(call.function.name, json.loads(call.function.arguments)) for call in calls]


def test_openai_s_client_gets_calls_whole_and_streamed(server: Live, sdk, caller):
    fields = {"model": server.service.model, "messages": ASKED, "tools": TOOLS}
    client = sdk(server).chat.completions
    choice = client.create(**fields).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("I look.", "tool_calls")
    assert read(choice.message.tool_calls) == [("weather", {"place": "Zürich"})] * 2
    assert len({call.id for call in choice.message.tool_calls}) == 2
    with client.stream(**fields) as stream:
        parts = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion().choices[0]
    assert "".join(parts) == "I look. "
    assert read(final.message.tool_calls) == read(choice.message.tool_calls)
    assert final.finish_reason == "tool_calls"
    one = client.create(**fields, parallel_tool_calls=False).choices[0]
    assert len(one.message.tool_calls) == 1


def test_answers_without_calls_are_whole(server: Live, caller):
    for text in ("It rains.", "a < b <tool", "<tool_call>\nbroken"):
        caller.parts = in_parts(text)
        reply = server.chat(ASKED, tools=TOOLS).json()["choices"][0]
        assert (reply["message"]["content"], reply["finish_reason"]) == (text, "stop")
        chunks = server.chunks(ASKED, tools=TOOLS)
        assert text_in(chunks) == text
        assert not any("tool_calls" in chunk["choices"][0]["delta"] for chunk in chunks)


def test_the_model_sees_tools_calls_and_results(server: Live, caller):
    message = server.chat(ASKED, tools=TOOLS).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "rain"}
    without = {"type": "function", "function": {"name": "weather", "arguments": ""}}
    bare = {"role": "assistant", "tool_calls": [without]}
    assert server.chat([*ASKED, bare, result], tools=TOOLS).status_code == 200
    assert server.chat([*ASKED, message, result], tools=TOOLS).status_code == 200
    tokenizer = server.service.engine.target.tokenizer
    parts = [part for chunk in caller.asked[-1][0].chunks for part in chunk.parts]
    text = tokenizer.decode([token for part in parts for token in part])
    assert all(each in text for each in (json.dumps(TOOLS[0]), CALL, "rain"))
    assert caller.asked[-1][0].before.turns[0].answer_text == f"I look.\n{CALL}\n{CALL}"
    server.chat(ASKED, tools=TOOLS, tool_choice="none")
    first = caller.asked[-1][0].chunks[0].parts[0]
    assert "weather" not in tokenizer.decode(first).split("user")[0]


@pytest.mark.parametrize(
    ("choice", "heat", "parallel"),
    [("required", 0, True), ("required", 0.9, False), ("time", 0.9, True)],
)
def test_a_forced_call_is_one_of_the_tools_and_drafts_do_not_change_it(
    mini: Live, monkeypatch, choice, heat, parallel
):
    monkeypatch.setattr(mini.service.engine, "target", calling(mini.service.engine))
    named = {"type": "function", "function": {"name": choice}}
    fields = {
        "tools": SEVERAL,
        "tool_choice": choice if choice == "required" else named,
        "parallel_tool_calls": parallel,
        "temperature": heat,
        "seed": 3,
    }
    reply = mini.chat(ASKED, **fields, max_tokens=300).json()["choices"][0]
    plain = mini.chat(ASKED, **fields, max_tokens=300, mmspec={"plain": True}).json()["choices"][0]
    assert (reply["finish_reason"], reply["message"]["content"]) == ("tool_calls", None)
    calls = [call["function"] for call in reply["message"]["tool_calls"]]
    assert calls == [call["function"] for call in plain["message"]["tool_calls"]]
    assert len(calls) == 1 or (parallel and choice == "required")
    for call in calls:
        assert choice in ("required", call["name"])
        jsonschema.validate(json.loads(call["arguments"]), SCHEMAS[call["name"]])


def test_what_cannot_be_done_is_refused(server: Live, caller, scripted: Live):
    """As arguments of earlier calls that are no JSON; a model without tools says so."""
    function = {"name": "weather", "arguments": "{broken"}
    called = {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}
    endless = {"type": "function", "function": {"name": "x", "parameters": {"$ref": "#"}}}
    for fields, param in (
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "any"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"function": {"name": "time"}}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "required", "response_format": ANY}, "tool_choice"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [endless], "tool_choice": "required"}, "tools"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"messages": [*ASKED, called, *ASKED]}, "messages[1].tool_calls[0].function.arguments"),
    ):
        error = server.refusal({"messages": ASKED} | fields)
        assert error["param"] == param
        if len(fields) == 1 and "tool_choice" in fields:
            assert error["message"].endswith("it must be auto or none without tools")
    deep = {}
    for _ in range(800):
        deep = {"items": deep}
    nested = {"type": "function", "function": {"name": "x", "parameters": deep}}
    error = server.refusal({"messages": ASKED, "tools": [nested]})
    assert "nested too deeply" in error["message"]
    for fields in ({"tools": TOOLS}, {"messages": [*ASKED, {"role": "tool", "content": "x"}]}):
        error = scripted.refusal({"messages": ASKED, **fields})
        assert "the chat template of scripted writes none" in error["message"]
