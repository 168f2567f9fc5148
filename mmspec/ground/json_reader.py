"""Checks JSON values against the type annotations of the dataclasses that hold them.

The annotations are the only description of a format:

    Count = Annotated[int, Range(0, 1_000_000)]

    @dataclass(frozen=True)
    class Answer:
        token_ids: list[Count]
        text: str
        seconds: dict[str, Annotated[float, Range(0, 1e9)]]
        kind: Literal["stop", "length"] = "stop"

    read_value(Answer, json.loads(text))

A field with a default may be missing, and an unknown key is ignored. A JSON object becomes a
dataclass, a TypedDict or a dict, a list becomes a list, a tuple or a NamedTuple. Numbers are
finite, and text has no half of a surrogate pair, which UTF-8 cannot write.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from mmspec.ground.limits import Keys, Matches, OneOf, Range
from mmspec.ground.mismatch import SHOWN, MismatchError, shown
from mmspec.ground.plain_json import PLAIN, Reader, anything, matching, one_of

T = TypeVar("T")


def read_value(kind: type[T], value: Any) -> T:
    """`value` as its description `kind` says; raises MismatchError."""
    result: T = reader(kind)(value)  # type: ignore[arg-type]  # mypy: a protocol is not hashable
    return result


@cache
def reader(kind: Any) -> Reader:
    """The reader of values that an annotation describes."""
    if is_dataclass(kind):
        return _object(kind)
    if is_typeddict(kind):
        return _typed(kind)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return _row(kind)
    arguments = get_args(kind)
    match get_origin(kind):
        case None:
            return PLAIN[kind]
        case origin if origin is Annotated:
            return _annotated(*arguments)
        case origin if origin is Literal:
            return one_of(arguments)
        case origin if origin in (Union, UnionType):
            return _either(arguments)
        case origin if origin in (dict, Mapping):
            return _mapping(*arguments)
        case origin if origin is tuple and Ellipsis not in arguments:
            return _fixed(arguments)
    return _list(arguments[0], get_origin(kind))


def _annotated(kind: Any, limits: Range | OneOf | Matches | Keys) -> Reader:
    match limits:
        case Matches(pattern, allowed):
            return matching(re.compile(pattern), allowed)
        case Keys(names):
            return _with_keys(reader(kind), names)
        case OneOf(values):
            return one_of(values)
    return _limited(kind, limits)


def _limited(kind: Any, limits: Range) -> Reader:
    read = reader(kind)
    measured, allowed = _MEASURED.get(get_origin(kind) or kind, (len, "{} entries"))
    least, most, phrase = limits.least, limits.most, allowed.format(limits)

    def limited(value: Any) -> Any:
        try:
            result = read(value)
        except MismatchError as error:
            is_text = kind is str and isinstance(value, str)  # with half of a surrogate pair
            raise error if error.place or is_text else MismatchError(value, phrase) from error
        if not least <= measured(result) <= most:
            raise MismatchError(value, phrase)
        return result

    return limited


_MEASURED: dict[Any, tuple[Callable[[Any], float], str]] = {
    int: (anything, "an integer {}"),
    float: (anything, "a number {}"),
    str: (len, "a text, its length {}"),
    list: (len, "a list, its length {}"),
    dict: (len, "an object, its length {}"),
}
"""How a value of a kind is measured, and the words for what is allowed."""


def _either(kinds: tuple[Any, ...]) -> Reader:
    """Reads by the first kind that fits; the error is of the last, but for null."""
    first, *others = sorted(kinds, key=lambda kind: kind is not NoneType)
    read, read_other = reader(first), _either(tuple(others)) if others else None

    def either(value: Any) -> Any:
        try:
            return read(value)
        except MismatchError as error:
            if read_other is None:
                raise
            return _other(read_other, value, error)

    return either


def _other(read: Reader, value: Any, first: MismatchError) -> Any:
    try:
        return read(value)
    except MismatchError as error:
        if error.place or first.allowed == "null":
            raise
        raise MismatchError(value, f"{first.allowed} or {error.allowed}") from error


def _list(kind: Any, container: Callable[[list[Any]], Any]) -> Reader:
    read = reader(kind)

    def entries(value: Any) -> Any:
        if not isinstance(value, list):
            raise MismatchError(value, "a list")
        result: list[Any] = []
        try:
            for entry in value:
                result.append(read(entry))
        except MismatchError as error:
            raise error.within(f"[{len(result)}]") from error
        return container(result)

    return entries


def _fixed(kinds: tuple[Any, ...]) -> Reader:
    """Reads a list of as many entries as there are kinds."""
    readers = [reader(kind) for kind in kinds]

    def entries(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(readers):
            raise MismatchError(value, f"a list of {len(readers)} entries")
        return tuple(read(entry) for read, entry in zip(readers, value, strict=True))

    return entries


def _mapping(key_kind: Any, kind: Any) -> Reader:
    read_key, read = reader(key_kind), reader(kind)
    numbers = (get_args(key_kind) or (key_kind,))[0] is int

    def mapping(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise MismatchError(value, "an object")
        result = {}
        for key, entry in value.items():
            try:
                result[read_key(_decimal(key) if numbers else key)] = read(entry)
            except MismatchError as error:
                raise error.within(f".{shown(key)[1:-1]}") from error
        return result

    return mapping


def _with_keys(read: Reader, names: tuple[str, ...]) -> Reader:
    def with_keys(value: Any) -> Any:
        result = read(value)
        for name in names:
            if name not in result:
                raise MismatchError(MISSING, "there", f".{name}")
        return result

    return with_keys


def _decimal(key: str) -> int | str:
    return int(key) if key.isascii() and key.isdecimal() and len(key) < SHOWN else key


class _Field(NamedTuple):
    name: str
    read: Reader
    default: Any
    """MISSING if the value must be there."""


def _object(kind: Any) -> Reader:
    hints = get_type_hints(kind, include_extras=True)
    parts = [_Field(each.name, reader(hints[each.name]), _default(each)) for each in fields(kind)]

    def record(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MismatchError(value, "an object")
        return kind(**_read(parts, value))

    return record


def _typed(kind: Any) -> Reader:
    hints, required = get_type_hints(kind, include_extras=True), kind.__required_keys__
    parts = [
        _Field(name, reader(hints[name]), MISSING if name in required else None) for name in hints
    ]

    def typed(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MismatchError(value, "an object")
        return value | _read(parts, value)

    return typed


def _default(each: Any) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory


def _row(kind: Any) -> Reader:
    hints, defaults = get_type_hints(kind, include_extras=True), kind._field_defaults
    parts = [_Field(name, reader(hints[name]), defaults.get(name, MISSING)) for name in hints]

    def row(value: Any) -> Any:
        if not isinstance(value, list) or len(value) > len(parts):
            raise MismatchError(value, f"a list of at most {len(parts)} entries")
        return kind(**_read(parts, dict(zip(hints, value, strict=False))))

    return row


def _read(parts: list[_Field], values: Mapping[str, Any]) -> dict[str, Any]:
    result = {}
    for name, read, default in parts:
        if name not in values and default is not MISSING:
            continue
        try:
            value = values.get(name, MISSING)
            if value is MISSING:
                raise MismatchError(value, "there")
            result[name] = read(value)
        except MismatchError as error:
            raise error.within(f".{name}") from error
    return result
