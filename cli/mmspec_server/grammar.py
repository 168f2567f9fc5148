"""Answers in JSON: which tokens a schema allows, by llguidance."""

import json
from collections.abc import Mapping
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmspec.chat.loaded_model import LoadedModel
from mmspec.decoding.constraint import OpenConstraint
from mmspec.ground.errors import UsageError, not_installed
from mmspec_server.endpoint import ApiError

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

LAYOUT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""One line of JSON as most programs write it: free spaces let a model write them without end."""


class Grammars:
    """The constraints that schemas put on one target's answers."""

    def __init__(self, target: LoadedModel) -> None:
        self._target = target
        self._size = target.model.config.text.vocab_size
        self._lock = Lock()

    def json(self, schema: Mapping[str, Any], param: str) -> OpenConstraint:
        """What opens a constraint to JSON texts of a schema.

        Raises ApiError, naming the field `param`, for a schema that cannot be enforced.
        """
        try:
            from llguidance import LLMatcher
        except ModuleNotFoundError as error:
            reason = str(not_installed(f"{param}: JSON", error, "server"))
            raise ApiError(400, reason, param) from error
        with self._lock:
            vocabulary = self._vocabulary
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults=LAYOUT)
        failed, reasons = LLMatcher.validate_grammar_with_warnings(grammar, vocabulary)
        if failed:
            reason = " ".join(reasons[0].split())[:300]
            raise ApiError(400, f"{param} cannot be enforced: {reason}", param, "invalid_value")
        return lambda: JsonConstraint(LLMatcher(vocabulary, grammar), self._size)

    @cached_property
    def _vocabulary(self) -> "LLTokenizer":
        """The target's tokens as llguidance reads them, which takes a second for large ones."""
        from llguidance import LLTokenizer

        target, size = self._target, self._size
        stop = sorted(token for token in target.stop if token < size)
        if not stop:
            raise UsageError(f"{target.name} has no stop token, so no JSON text of it would end")
        most = max(size, target.tokenizer.size)
        return LLTokenizer(target.tokenizer.to_json(), n_vocab=most, eos_token=stop)


class JsonConstraint:
    """Implements `mmspec.decoding.constraint.Constraint` with a matcher at its beginning."""

    def __init__(self, matcher: "LLMatcher", size: int) -> None:
        """size: V."""
        self._matcher, self._size = matcher, size

    def allowed(self) -> NDArray[np.bool_]:
        """[V] True for each token that may come next."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            raise UsageError(f"the JSON schema: {self._matcher.get_error()}")
        return np.unpackbits(bits, count=self._size, bitorder="little").astype(bool)

    def advance(self, token: int) -> None:
        """Take note of the next token."""
        self._matcher.consume_token(token)
