"""Readers of JSON values that hold no others."""

import re
from collections.abc import Callable
from sys import float_info
from types import NoneType
from typing import Any

from mmspec.ground.mismatch import MismatchError, shown

Reader = Callable[[Any], Any]
"""Function from a JSON value to what it stands for; raises MismatchError."""


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise MismatchError(value, "an integer")
    return value


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -float_info.max <= value <= float_info.max:
        raise MismatchError(value, "a number")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise MismatchError(value, "true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise MismatchError(value, "a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise MismatchError(value, "text without half of a surrogate pair") from error
    return value


def _null(value: Any) -> None:
    if value is not None:
        raise MismatchError(value, "null")


def anything(value: Any) -> Any:
    """The value itself."""
    return value


PLAIN: dict[Any, Reader] = {
    int: _integer,
    float: _number,
    bool: _flag,
    str: _text,
    NoneType: _null,
    Any: anything,
}


def one_of(allowed: tuple[Any, ...]) -> Reader:
    """The reader of values that are among `allowed`."""
    names = " or ".join(map(shown, allowed))
    kinds = {type(each) for each in allowed}

    def read(value: Any) -> Any:
        if type(value) not in kinds or value not in allowed:
            raise MismatchError(value, names)
        return value

    return read


def matching(pattern: re.Pattern[str], allowed: str) -> Reader:
    """The reader of texts that a pattern matches whole; allowed: the words for them."""

    def read(value: Any) -> Any:
        if not pattern.fullmatch(_text(value)):
            raise MismatchError(value, allowed)
        return value

    return read
