"""Answers in JSON: they obey the schema, whatever is drafted and at every temperature."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.live_server import Live, accepted, only, shown, text_in, text_of, words

jsonschema = pytest.importorskip("jsonschema", reason="the oracle comes with mmspec[test]")

ASKED = [{"role": "user", "content": [shown("red"), words("What is in this picture?")]}]
FLAGS = {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}
COLOUR = {"enum": ["red", "blue", "été"]}
DEFINED = only(
    {"colour": COLOUR, "flags": {"$ref": "#/$defs/flags"}}, **{"$defs": {"flags": FLAGS}}
)

leaves = (
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"enum": ["a", 'b"', "é", 7]}])
    | st.integers(0, 99).map(lambda most: {"type": "integer", "minimum": 0, "maximum": most})
    | st.integers(1, 6).map(lambda most: {"type": "string", "maxLength": most})
)
schemas = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(inner, st.integers(0, 3)).map(
            lambda pair: {"type": "array", "items": pair[0], "maxItems": pair[1]}
        )
        | st.dictionaries(st.sampled_from(["a", "b c", "été"]), inner, max_size=3).map(only)
    ),
    max_leaves=4,
)


def obeying(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schemas, st.sampled_from([0, 0.7, 1.5]), st.integers(0, 99))
def test_an_answer_obeys_its_schema_and_drafts_do_not_change_it(mini, schema, heat, seed):
    fields = {"response_format": obeying(schema), "temperature": heat, "seed": seed}
    drafted = mini.chat(ASKED, **fields).json()
    plain = mini.chat(ASKED, **fields, mmspec={"plain": True}).json()
    assert text_of(drafted) == text_of(plain)
    assert drafted["choices"][0]["finish_reason"] == "stop"
    jsonschema.validate(json.loads(text_of(drafted)), schema)


def test_drafts_are_accepted_within_a_schema(mini: Live):
    reply = mini.chat(ASKED, response_format=obeying({"enum": ["a blue square", 1]})).json()
    assert text_of(reply) in ('"a blue square"', "1")
    free = mini.chat(ASKED, max_tokens=20).json()
    letters = obeying({"type": "string", "pattern": "^[A-Za-z ,.]{30,60}$"})
    reply = mini.chat(ASKED, response_format=letters).json()
    assert accepted(free)
    assert accepted(reply)


def test_any_object_responses_and_log_probabilities_have_it_too(mini: Live):
    stream = mini.chunks(ASKED, response_format={"type": "json_object"}, max_tokens=60)
    text = text_in(stream)
    assert text.startswith("{")
    whole = stream[-1]["choices"][0]["finish_reason"] == "stop"
    assert not whole or isinstance(json.loads(text), dict)
    form = {"type": "json_schema", "name": "answer", "schema": DEFINED}
    question = {"input": "What do you know?", "text": {"format": form}}
    reply = mini.client.post("/v1/responses", json=question).json()
    jsonschema.validate(json.loads(reply["output"][0]["content"][0]["text"]), DEFINED)
    reply = mini.chat(ASKED, response_format=obeying(DEFINED), logprobs=True).json()
    tokens = [entry["token"] for entry in reply["choices"][0]["logprobs"]["content"]]
    assert "".join(tokens) == text_of(reply)


def many(optional, *required):
    """The schema of an object with so many properties that may be left out, after required ones."""
    names = [*required, *map(str, range(optional))]
    return {"properties": dict.fromkeys(names, True), "required": required}


def chain(count):
    """A schema of objects, so many, of which each holds the next by reference."""
    inner = {f"a{n}": {"properties": {"b": {"$ref": f"#/$defs/a{n + 1}"}}} for n in range(count)}
    return {"$ref": "#/$defs/a0", "$defs": inner | {f"a{count}": {"type": "integer"}}}


REFUSED = [
    (None, "missing"),
    ({"type": "nothing"}, "type"),
    ({"$ref": "https://example.com/schema"}, "example.com"),
    ({"$ref": "#"}, "no JSON text obeys the schema"),
    (only({"a": {"$ref": "#"}}), "no JSON text obeys"),
    ({"not": {"type": "string"}}, "not"),
    ({"type": "string", "pattern": "("}, "unclosed group"),
    (many(50_000), "the schema is too large: give fewer properties"),
    (chain(9000), "20000 are allowed: nest less"),
]


def test_a_schema_that_cannot_be_enforced_is_refused_with_the_reason(mini: Live):
    for schema, reason in REFUSED:
        error = mini.refusal({"messages": ASKED, "response_format": obeying(schema)})
        assert error["param"] == "response_format.json_schema.schema"
        assert reason in error["message"]
        assert "x-guidance" not in error["message"]
    error = mini.refusal({"messages": ASKED, "response_format": {"type": "yaml"}})
    assert error["param"] == "response_format.type"


TEXTS = [{"maxLength": most, "type": "string"} for most in range(30)]
ALIKE = [{"type": "object", "properties": {f"{n}": text for n in range(50)}} for text in TEXTS]
ANSWERED = [
    *(many(0, *map(str, range(2000))), many(2000) | {"additionalProperties": False}),
    *({"prefixItems": [many(1200), many(900, "a")]}, {"anyOf": ALIKE}, chain(1200)),
]


@pytest.mark.parametrize("schema", ANSWERED)
def test_large_schemas_are_answered(mini: Live, schema):
    """One thread's stack has no room for a chain; each choice takes room in a grammar."""
    reply = mini.chat(ASKED, response_format=obeying(schema), max_tokens=4)
    assert reply.status_code == 200, reply.text[:300]
