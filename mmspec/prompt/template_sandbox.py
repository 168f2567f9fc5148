"""The Jinja environment of chat templates: transformers' own, without access to Python.

It limits the size of source, output and numbers, but not time or memory: Ctrl-C ends a template
that runs on. Only a single step of Python can outlast it, such as comparing or printing lists that
hold each other many times over. The module is imported only to render: Jinja loads slowly.
"""

from collections.abc import Iterable, Iterator, Sized
from datetime import datetime
from functools import lru_cache
from json import JSONEncoder
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.filters import do_round
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_SOURCE = 200_000
"""Characters of a template's source at most."""

MAX_OUTPUT = 20_000_000
"""Characters of a template's output at most, and elements of the result of one `*`."""

MAX_BITS = 10_000
"""Bits of an integer that `*`, `**`, `//` and `%` take and give at most, and places of `round`."""


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's text for training; here only its body counts."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """Compiles chat templates; Python's internals are undefined in them."""

    # One step of these on long integers can outlast any Ctrl-C.
    intercepted_binops = frozenset(["*", "**", "//", "%"])

    def __init__(self) -> None:
        extensions = [_GenerationTag, LoopControlExtension]
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
        now = {"strftime_now": lambda format: datetime.now().strftime(format)}
        self.globals |= now | {"raise_exception": _raise}
        self.globals |= {"namespace": _TemplateNamespace, "dict": _TemplateDict()}
        self.filters |= {"tojson": _to_json, "round": _round}
        self.tests["divisibleby"] = self._divisible

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute `left operator right`; raises SecurityError where that could take very long."""
        size, limit = _size(operator, left, right)
        if size > limit:
            raise SecurityError(f"a number or the result of {operator} is too large")
        return super().call_binop(context, operator, left, right)

    def _divisible(self, value: Any, num: Any) -> bool:
        return bool(self.call_binop(None, "%", value, num) == 0)


class _TemplateDict:
    """The function `dict`; the type itself has methods that could change the messages."""

    def __call__(self, *args: Any, **values: Any) -> dict[Any, Any]:
        return dict(*args, **values)

    def fromkeys(self, keys: Iterable[Any], value: Any = None) -> dict[Any, Any]:
        return dict.fromkeys(keys, value)


class _TemplateNamespace(Namespace):
    """Jinja's namespace without names that begin with _, which lead to Python's internals."""

    def __init__(*args: Any, **values: Any) -> None:  # self is among args: it may be a value's name
        self, names = args[0], dict(*args[1:], **values)
        for name in names:
            _check_name(name)
        Namespace.__init__(self, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def render(source: str, variables: dict[str, Any]) -> str:
    """The text that a template writes; raises the errors of Jinja and of the template."""
    return "".join(_cap(_compile(source).generate(variables)))


@lru_cache
def _compile(source: str) -> Template:
    if len(source) > MAX_SOURCE:
        raise SecurityError(f"it has more than {MAX_SOURCE} characters")
    return ChatEnvironment().from_string(source)


def _cap(pieces: Iterable[str]) -> Iterator[str]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_OUTPUT:
            raise SecurityError(f"it writes more than {MAX_OUTPUT} characters")
        yield piece


def _size(operator: str, left: Any, right: Any) -> tuple[int, int]:
    """Size and limit: bits of operands and result for integers, or elements of a product."""
    match left, right:
        case int(), int():
            bits = left.bit_length(), right.bit_length()
            return (bits[0] * max(right, 1) if operator == "**" else sum(bits)), MAX_BITS
        case (int(count), other) | (other, int(count)) if operator == "*":
            return count * len(other) if isinstance(other, Sized) else 0, MAX_OUTPUT
    return 0, MAX_OUTPUT


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot hold {name!r}: names may not begin with _")


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _round(value: Any, precision: Any = 0, method: Any = "common") -> Any:
    """As Jinja's own, which would compute any power of ten."""
    if isinstance(precision, int) and abs(precision) > MAX_BITS:
        raise SecurityError(f"round takes at most {MAX_BITS} places")
    return do_round(value, precision, method)


def _to_json(
    x: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON without escaping HTML, unlike Jinja's own filter."""
    encoder = JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    return "".join(_cap(encoder.iterencode(x)))  # Ctrl-C cannot end `encode`
