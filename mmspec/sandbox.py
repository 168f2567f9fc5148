"""A Jinja environment for templates nobody here wrote: no Python internals, and every step counted.

Jinja's own sandbox keeps templates away from Python. It bounds neither time nor memory, so here
loops, calls, filters, operators and literals draw on a budget: of steps, one for each element they
touch however deeply nested, and of characters they make. Imported only to render: Jinja takes a
while to load.
"""

import functools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from types import BuiltinMethodType
from typing import Any, NoReturn

from jinja2 import TemplateRuntimeError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

MAX_STEPS = 200_000
MAX_CHARACTERS = 30_000_000
MAX_PRODUCT = 50_000_000
"""How large the sizes of an operation's arguments may be, multiplied: replace, join, indent."""

_WIDTHS = re.compile(r"\d{5}|\*")


class GenerationTag(Extension):
    """`{% generation %}` marks what the assistant said; here its body is all that counts."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the body of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Budget:
    """What one rendering may still use; raises TemplateRuntimeError where it is spent."""

    def __init__(self) -> None:
        """Start with the whole budget."""
        self.steps = MAX_STEPS
        self.characters = MAX_CHARACTERS

    def step(self, count: int = 1) -> None:
        """Spend steps."""
        self.steps -= count
        if self.steps < 0:
            raise TemplateRuntimeError(f"it takes more than {MAX_STEPS} steps")

    def made(self, value: Any) -> Any:
        """Spend what `value` holds, and return it."""
        self.characters -= self.size(value)
        if self.characters < 0:
            raise TemplateRuntimeError(f"it writes more than {MAX_CHARACTERS} characters")
        return value

    def size(self, value: Any) -> int:
        """Return characters plus elements, counted through all nesting, a step for each."""
        size, open_values = 0, [value]
        while open_values:
            self.step()
            each = open_values.pop()
            size += len(each) if isinstance(each, str | bytes) else 1
            if isinstance(each, Namespace):
                raise SecurityError("a namespace is no value")
            if isinstance(each, Mapping):
                open_values += each.values()
            if isinstance(each, Collection) and not isinstance(each, str | bytes):
                open_values += each
        return size

    def taken(self, values: Iterable[Any]) -> None:
        """Check the arguments of an operation, before it multiplies their sizes."""
        sizes = (abs(each) if isinstance(each, int) else self.size(each) for each in values)
        if math.prod(max(size, 1) for size in sizes) > MAX_PRODUCT:
            raise TemplateRuntimeError("it makes something far too large")


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox in which a template can neither run long nor grow large.

    Raises TemplateRuntimeError or SecurityError where one tries. `renew` before each rendering.
    """

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        """Open with what chat templates use, and no loader."""
        self._budget = Budget()
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # which would compute constants while compiling
            finalize=self._written,
            extensions=[GenerationTag, LoopControlExtension],
        )
        allowed = {name: self.globals[name] for name in ("range", "namespace", "dict")}
        self.globals = {**allowed, "raise_exception": _raise}
        del self.filters["format"]
        self.filters["tojson"] = _to_json
        self.filters = {name: self._bounded(each) for name, each in self.filters.items()}
        self.filters |= {"_each": self._each, "_made": self._made, "_joined": self._joined}

    def renew(self) -> None:
        """Give the next rendering its whole budget."""
        self._budget = Budget()

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template: nodes.Template = _Counting().visit(super()._parse(source, name, filename))
        return template

    def call(self, context: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function of the template."""
        self._budget.step(5)  # a macro's call takes several times a loop's round
        subject = [function.__self__] if isinstance(function, BuiltinMethodType) else []
        self._budget.taken([*subject, *args, *kwargs.values()] if function is not Namespace else [])
        result = super().call(context, function, *args, **kwargs)
        return result if isinstance(result, Namespace) else self._budget.made(result)

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        """Refuse what leads to Python's internals at once, not only where it is used."""
        raise SecurityError(f"it reaches for {attribute!r} of a {type(obj).__name__}")

    def wrap_str_format(self, value: Any) -> Any:
        """Refuse str.format, whose widths cannot be told beforehand."""
        if super().wrap_str_format(value) is not None:
            raise SecurityError("str.format is not allowed")
        return None

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute `left operator right`."""
        if operator == "**" or (operator == "%" and isinstance(left, str) and _WIDTHS.search(left)):
            raise SecurityError("it computes something far too large")
        if operator == "*" and not (isinstance(left, int) and isinstance(right, int)):
            self._budget.taken([left, right])
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int) and result.bit_length() > 64:
            raise TemplateRuntimeError("it computes with integers far too large")
        return self._budget.made(result)

    def _bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)  # keeps Jinja's marks on what a filter wants to be passed
        def bounded(*args: Any, **kwargs: Any) -> Any:
            passed = "jinja_pass_arg" in vars(function)
            self._budget.taken([*args[passed:], *kwargs.values()])
            result = function(*args, **kwargs)
            # Drawn out here, so that whatever takes the elements next can be checked.
            return self._budget.made(list(result) if isinstance(result, Iterator) else result)

        return bounded

    def _each(self, values: Iterable[Any]) -> Iterable[Any]:
        kept = values if isinstance(values, Sized) else list(values)
        self._budget.step(len(kept) + 1)
        return kept

    def _made(self, value: Any) -> Any:
        return self._budget.made(value)

    def _joined(self, values: list[Any]) -> str:
        return "".join(map(str, self._budget.made(values)))

    def _written(self, value: Any) -> Any:
        return self._budget.made(value)


class _Counting(NodeTransformer):
    """Passes through the budget what Jinja gives its environment no say in."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        """Count the rounds of a loop before they begin."""
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "_each")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        """Count the characters of `a ~ b`."""
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), "_joined")

    def visit_List(self, node: nodes.Expr) -> nodes.Node:
        """Count the elements of a literal, those of its elements too."""
        self.generic_visit(node)
        return _filtered(node, "_made")

    visit_Dict = visit_List

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        """Count as `visit_List`, except names that are assigned to."""
        self.generic_visit(node)
        return _filtered(node, "_made") if node.ctx == "load" else node


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _raise(message: str) -> NoReturn:
    raise TemplateRuntimeError(message)


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False) -> str:
    """Write JSON without escaping HTML, unlike Jinja's own filter."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
