"""Answers in JSON, and calls of tools: which tokens a grammar allows, by llguidance."""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from numpy.typing import NDArray

from mmspec.chat.loaded_model import LoadedModel
from mmspec.decoding.constraint import OpenConstraint
from mmspec.ground.errors import UsageError
from mmspec.prompt.chat_template import Tool
from mmspec.prompt.tool_calls import SEPARATOR, CallForm
from mmspec_server.endpoint import ApiError

LAYOUT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""One line of JSON as most programs write it: free spaces let a model write them without end."""

KEYWORDS_PAGE = "https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md"

WRAPPING = re.compile(r"^(at \d+\(\d+\): )?(failed to compile JSON schema: )?| \d+ \| start: .*")
"""What llguidance writes around its reason: places in a grammar, and the grammar."""

LIMITS = LLParserLimits(max_grammar_size=50_000, max_items_in_row=50_000, step_max_items=500_000)
"""The most symbols of a grammar, choices after a token, and choices within one. There may be as
many choices as symbols, so a schema that is too large is refused before the answer, not in it."""

MOST_LEVELS, STACK_BYTES = 20_000, 2**28
"""Schemas within each other, along references, and the stack of the thread that compiles them:
llguidance calls itself for each, and the process ends where its stack does. Half is enough."""


class Grammars:
    """The constraints that schemas and tools put on one target's answers."""

    def __init__(self, target: LoadedModel) -> None:
        self._target = target
        self._size = target.model.config.text.vocab_size
        self._lock = threading.Lock()

    def json(self, schema: Mapping[str, Any], param: str) -> OpenConstraint:
        """What opens a constraint to JSON texts of a schema; ApiError if it cannot be enforced."""
        if (levels := _levels(schema)) > MOST_LEVELS:
            reason = f"{levels} schemas may lie within each other, {MOST_LEVELS} are allowed"
            raise _refusal(param, f"{reason}: nest less, or use fewer `$ref`s")
        return self._constraint(f"start: {_object(schema)}", param)

    def calls(self, form: CallForm, tools: Sequence[Tool], most: int | None) -> OpenConstraint:
        """What opens a constraint to calls of tools: one, or more if `most` is None; see `json`."""
        functions = []
        for tool in tools:
            function, schema = tool["function"], tool["function"].get("parameters")
            schema = schema if isinstance(schema, dict) else {"type": "object"}
            self.json(schema, "tools")  # alone, so that one which no text obeys is refused now
            start = f'{{"name": {_text(function["name"])}, "{form.key}": '
            functions.append(f"{_text(start)} {_object(schema)} {_text('}')}")
        several = "" if most else f"({_text(SEPARATOR)} call)*"
        before, after = self._with_tokens(form.before), self._with_tokens(form.after)
        call = f"{before} ({' | '.join(functions)}) {after}"
        return self._constraint(f"start: call {several}\ncall: {call}", "tools")

    def _with_tokens(self, text: str) -> str:
        """A text in Lark's notation; parts that are tokens of their own are named by their ids."""
        tokenizer = self._target.tokenizer
        ids = {id for id in tokenizer.encode(text) if tokenizer.is_added(id)}
        marks = {tokenizer.token(id) or "": f"<[{id}]>" for id in ids}
        parts = re.split(f"({'|'.join(map(re.escape, marks)) or '(?!)'})", text)
        return " ".join(marks.get(part, _text(part)) for part in parts if part)

    def _constraint(self, lark: str, param: str) -> OpenConstraint:
        matcher = self._matcher(LLMatcher.grammar_from_lark(lark))
        trial = matcher.deep_copy()
        trial.consume_tokens(trial.compute_ff_tokens())  # without a choice: a text may have no end
        try:
            GrammarConstraint(trial, self._size).mask()
        except UsageError as error:
            raise _refusal(param, f"{error}; {KEYWORDS_PAGE} lists what is allowed") from error
        return lambda: GrammarConstraint(matcher.deep_copy(), self._size)

    def _matcher(self, grammar: str) -> LLMatcher:
        """A grammar's matcher, built on a thread of its own with a large stack."""
        with ThreadPoolExecutor(1, "grammar") as thread:
            with self._lock:  # of several threads one reads the vocabulary and sets the size
                build = partial(LLMatcher, self._vocabulary, log_level=0, limits=LIMITS)
                before = threading.stack_size(STACK_BYTES)
                try:
                    future = thread.submit(build, grammar)
                finally:
                    threading.stack_size(before)
            return future.result()

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

    def mask(self) -> NDArray[np.bool_]:
        """[V] True for each token that may come next."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            raise UsageError(_reason(self._matcher.get_error()))
        return np.unpackbits(bits, count=self._size, bitorder="little").astype(bool)

    def advance(self, token: int) -> None:
        """Take note of the next token."""
        self._matcher.consume_token(token)


def _object(schema: Mapping[str, Any]) -> str:
    return f"%json {json.dumps({'x-guidance': LAYOUT, **schema})}"


def _levels(schema: Mapping[str, Any]) -> int:
    """The most schemas that lie within each other if no reference is followed twice."""
    references, deepest = set[str](), 0
    parts: list[tuple[Any, int]] = [(schema, 1)]
    while parts:
        part, depth = parts.pop()
        deepest = max(deepest, depth)
        if isinstance(part, dict) and isinstance(reference := part.get("$ref"), str):
            references.add(reference)
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        parts += [(value, depth + 1) for value in inner]
    return (1 + len(references)) * deepest


def _reason(error: str) -> str:
    """llguidance's error as a sentence."""
    if re.search("NoExtensionBias|Too many items", error):
        cause = "does a `$ref` lead only to itself, or has it too many alternatives?"
        return f"no JSON text obeys the schema: {cause}"
    if re.search("too big|too large|panic|<state>", error):
        return "the schema is too large: give fewer properties or values"
    return WRAPPING.sub("", " ".join(error.split()))[:300]


def _refusal(param: str, reason: str) -> ApiError:
    return ApiError(400, f"{param} cannot be enforced: {reason}", param, "invalid_value")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
