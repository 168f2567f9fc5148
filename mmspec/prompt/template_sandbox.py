"""The Jinja environment of chat templates: transformers' functions without access to Python.

It blocks Python's internals and limits the size of source and output, but not time or memory:
Ctrl-C ends a template that runs on. It is imported only to render, because Jinja loads slowly.
"""

import json
from collections.abc import Iterator, Sized
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateRuntimeError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_SOURCE = 200_000
"""Characters of a template's source at most."""

MAX_OUTPUT = 20_000_000
"""Characters of a template's output at most, and of the result of one `*` or `**`."""


class GenerationTag(Extension):
    """`{% generation %}` marks the assistant's text for training; here only its body counts."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the body of the block, with a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """Compiles chat templates; raises SecurityError if one accesses Python internals."""

    intercepted_binops = frozenset(["*", "**"])  # one step of these can outlast any Ctrl-C

    def __init__(self) -> None:
        extensions = [GenerationTag, LoopControlExtension]
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
        del self.globals["lipsum"]
        self.globals |= {"raise_exception": _raise, "strftime_now": _now, "namespace": _namespace}
        self.filters["tojson"] = _to_json

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        """Raise SecurityError as soon as an unsafe attribute is read, not only when it is used."""
        raise SecurityError(f"it reaches for {attribute!r} of a {type(obj).__name__}")

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute `left * right` or `left ** right`; raises an error for a huge result."""
        if _size(operator, left, right) > MAX_OUTPUT:
            raise SecurityError(f"the result of {operator} is too large")
        return super().call_binop(context, operator, left, right)


def rendered(source: str, variables: dict[str, Any]) -> str:
    """The text that a template writes; raises the errors of Jinja and of the template."""
    return "".join(_capped(_compiled(source).generate(variables)))


@lru_cache
def _compiled(source: str) -> Template:
    if len(source) > MAX_SOURCE:
        raise SecurityError(f"it has more than {MAX_SOURCE} characters")
    return ChatEnvironment().from_string(source)


def _capped(pieces: Iterator[str]) -> Iterator[str]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_OUTPUT:
            raise SecurityError(f"it writes more than {MAX_OUTPUT} characters")
        yield piece


def _size(operator: str, left: Any, right: Any) -> int:
    """Characters, elements or bits of the result; 0 for a float."""
    match left, right:
        case int(), int():
            bits = left.bit_length(), right.bit_length()
            return bits[0] * right if operator == "**" else sum(bits)
        case (int(count), other) | (other, int(count)) if isinstance(other, Sized):
            return count * len(other)
    return 0


def _raise(message: str) -> NoReturn:
    raise TemplateRuntimeError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _namespace(*args: Any, **values: Any) -> Namespace:
    if any(name.startswith("_") for name in dict(*args, **values)):
        raise SecurityError("a namespace cannot hold names that begin with _")
    return Namespace(*args, **values)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON without escaping HTML, unlike Jinja's own filter."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
