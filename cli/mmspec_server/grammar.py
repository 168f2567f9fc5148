"""Answers in JSON, and calls of tools: which tokens a grammar allows, by llguidance."""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

from mmspec.chat.loaded_model import LoadedModel
from mmspec.decoding.constraint import OpenConstraint
from mmspec.ground.errors import UsageError
from mmspec.prompt.chat_template import Tool
from mmspec.prompt.tool_calls import SEPARATOR, CallForm
from mmspec_server.endpoint import ApiError

LAYOUT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""One line of JSON as most programs write it: free spaces let a model write them without end."""

SUPPORTED = "https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md"
"""Where llguidance lists the keywords that it enforces."""

WRAPPING = re.compile(r"^(at \d+\(\d+\): )?(failed to compile JSON schema: )?| \d+ \| start: .*")
"""What llguidance writes around its reason: places in a grammar, and the grammar."""

VALUES = ("const", "enum", "default", "examples")
"""Keywords of a schema that hold values, which are no schemas."""
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords of a schema that hold schemas by names, which are no keywords."""


class Grammars:
    """The constraints that schemas and tools put on one target's answers."""

    def __init__(self, target: LoadedModel) -> None:
        self._target = target
        self._size = target.model.config.text.vocab_size
        self._lock = Lock()

    def json(self, schema: Mapping[str, Any], param: str) -> OpenConstraint:
        """What opens a constraint to JSON texts of a schema.

        Raises ApiError, naming the field `param`, for a schema that cannot be enforced.
        """
        constraint = self._constraint(f"start: {_object(schema)}", param)
        objects = [*_objects(schema)]
        for others in (True, False):
            alike = (properties for properties, may in objects if may == others)
            most = max(alike, key=_optional, default=[])
            if _optional(most):  # what is required is no choice
                self._check_room(most, others, param)
        return constraint

    def calls(self, form: CallForm, tools: Sequence[Tool], most: int | None) -> OpenConstraint:
        """What opens a constraint to calls of tools, one at least, each with its own arguments.

        most: 1 for one call; None for any number.  Raises ApiError for parameters of a tool that
        cannot be enforced.
        """
        for tool in tools:  # each alone, so that one which no text obeys is refused before a call
            self.json(_parameters(tool["function"]), "tools")
        several = "" if most else f"({_text(SEPARATOR)} call)*"
        before, after = self._with_tokens(form.before), self._with_tokens(form.after)
        called = " | ".join(_called(tool["function"], form.key) for tool in tools)
        grammar = f"start: call {several}\ncall: {before} ({called}) {after}"
        return self._constraint(grammar, "tools")

    def _with_tokens(self, text: str) -> str:
        """A text in Lark's notation; parts that are tokens of their own are named by their ids."""
        tokenizer = self._target.tokenizer
        ids = {id for id in tokenizer.encode(text) if tokenizer.is_added(id)}
        marks = {tokenizer.token(id) or "": f"<[{id}]>" for id in ids}
        parts = re.split(f"({'|'.join(map(re.escape, marks)) or '(?!)'})", text)
        return " ".join(marks.get(part, _text(part)) for part in parts if part)

    def _check_room(self, properties: Sequence[bool], others: bool, param: str) -> None:
        """Raise ApiError if an object's grammar does not hold its properties; see `_holds`."""
        if self._holds(properties, others):
            return
        counts = range(len(properties))
        most = bisect_left(counts, True, key=lambda n: not self._holds(properties[:n], others)) - 1
        reason = (
            f"{param} cannot be enforced: of one object's properties {_optional(properties)} may "
            f"be left out, and a grammar holds {_optional(properties[:most])} of them: require "
            "more of the properties, or give fewer"
        )
        raise ApiError(400, reason, param, "invalid_value")

    def _holds(self, properties: Sequence[bool], others: bool) -> bool:
        """True if an object's grammar has room for its choices among the properties.

        properties: of each whether it is required.  others: whether the object may have others,
        which are a choice too.
        """
        names = [*map(str, range(len(properties)))]
        required = [name for name, needed in zip(names, properties, strict=True) if needed]
        schema = {
            "type": "object",
            "properties": dict.fromkeys(names, True),
            "required": required,
            "additionalProperties": others,
        }
        # The most choices are before a required property and, in the end, before the last one.
        text = json.dumps(dict.fromkeys([*required, *names[-1:]]))
        tokens = self._vocabulary.greedy_tokenize(text)
        grammar = LLMatcher.grammar_from_lark(f"start: {_object(schema)}")
        matcher = LLMatcher(self._vocabulary, grammar, log_level=0)
        return bool(matcher.consume_tokens(tokens))

    def _constraint(self, lark: str, param: str) -> OpenConstraint:
        with self._lock:  # of several threads one builds it, before any other method needs it
            vocabulary = self._vocabulary
        grammar = LLMatcher.grammar_from_lark(lark)
        failed, reasons = LLMatcher.validate_grammar_with_warnings(grammar, vocabulary)
        matcher = LLMatcher(vocabulary, grammar, log_level=0)

        def opened() -> GrammarConstraint:
            return GrammarConstraint(matcher.deep_copy(), self._size)

        try:
            if failed:
                raise UsageError(WRAPPING.sub("", " ".join(reasons[0].split()))[:300])
            opened().allowed()
        except UsageError as error:
            reason = f"{param} cannot be enforced: {error}; {SUPPORTED} lists what is allowed"
            raise ApiError(400, reason, param, "invalid_value") from error
        return opened

    @cached_property
    def _vocabulary(self) -> LLTokenizer:
        """The target's tokens as llguidance reads them, which takes a second for large ones."""
        target, size = self._target, self._size
        stop = sorted(token for token in target.stop if token < size)
        if not stop:
            raise UsageError("the model has no stop token: no answer in a grammar would end")
        most = max(size, target.tokenizer.size)
        return LLTokenizer(target.tokenizer.to_json(), n_vocab=most, eos_token=stop)


class GrammarConstraint:
    """Implements `mmspec.decoding.constraint.Constraint` with a matcher at its beginning."""

    def __init__(self, matcher: LLMatcher, size: int) -> None:
        """size: V."""
        self._matcher, self._size = matcher, size

    def allowed(self) -> NDArray[np.bool_]:
        """[V] True for each token that may come next."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            nothing = self._matcher.get_error().startswith("NoExtensionBias")
            raise UsageError(
                "no JSON text obeys the schema: does a `$ref` lead only to itself?"
                if nothing
                else "the schema is too large: give fewer properties"
            )
        return np.unpackbits(bits, count=self._size, bitorder="little").astype(bool)

    def advance(self, token: int) -> None:
        """Take note of the next token."""
        self._matcher.consume_token(token)


def _object(schema: Mapping[str, Any]) -> str:
    return f"%json {json.dumps({'x-guidance': LAYOUT, **schema})}"


def _objects(schema: Mapping[str, Any]) -> Iterator[tuple[list[bool], bool]]:
    """Of every object in a schema: which properties are required, and if it may have others."""
    parts: list[Any] = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            for keyword, value in part.items():
                if keyword in NAMED and isinstance(value, dict):
                    parts += value.values()
                elif keyword not in VALUES:
                    parts.append(value)
            properties, required = part.get("properties"), part.get("required")
            if isinstance(properties, dict):
                needed = {*map(str, required if isinstance(required, list) else [])}
                others = part.get("additionalProperties") is not False
                others |= "patternProperties" in part
                yield [name in needed for name in properties], others


def _optional(properties: Sequence[bool]) -> int:
    return properties.count(False)


def _called(function: Mapping[str, Any], key: str) -> str:
    """A function's name and arguments, as a call writes them."""
    arguments = _object(_parameters(function))
    start = f'{{"name": {json.dumps(function["name"], ensure_ascii=False)}, "{key}": '
    return f"{_text(start)} {arguments} {_text('}')}"


def _parameters(function: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = function.get("parameters")
    return schema if isinstance(schema, dict) else {"type": "object"}


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
