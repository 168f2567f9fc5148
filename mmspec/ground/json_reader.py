"""Checks JSON values against the type annotations of the dataclasses that hold them.

The annotations are the only description of a format, and msgspec does the checking:

    @dataclass(frozen=True)
    class Answer:
        token_ids: list[Annotated[int, Range(0, 1_000_000)]]
        kind: Literal["stop", "length"] = "stop"

    read_value(Answer, parse_json(text))

A field with a default may be missing, and an unknown key is ignored. A JSON object becomes a
dataclass, a TypedDict or a dict, a list becomes a list, a tuple or a NamedTuple.
"""

import json
import re
from dataclasses import MISSING, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

T = TypeVar("T")

VALUE_CHARACTERS = 60
"""Characters of a wrong value that its error repeats."""


class MismatchError(ValueError):
    """A value that is not as described: its place, such as rounds[3], itself, what is allowed."""

    def __init__(self, value: Any, requirement: str, place: str = "") -> None:
        """requirement: completes the sentence "must be …"."""
        super().__init__(value, requirement, place)
        self.value, self.requirement, self.place = value, requirement, place

    def __str__(self) -> str:
        place = self.place.removeprefix(".") or "the value"
        return f"{place} is {abbreviate(self.value)}, but must be {self.requirement}"

    def within(self, place: str) -> "MismatchError":
        """The error as the outer value has it, in which the wrong one is at `place`."""
        return MismatchError(self.value, self.requirement, place + self.place)


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; raises ValueError.

    Numbers are finite, text has no half of a surrogate pair, which UTF-8 cannot write, and nesting
    is as deep as Python's own calls may be.
    """
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_value(kind: type[T], value: Any) -> T:
    """`value` as the annotation `kind` describes it; raises MismatchError."""
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except UnicodeEncodeError as error:
        raise MismatchError(value, "without half of a surrogate pair in a name") from error
    except msgspec.ValidationError as error:
        if get_origin(kind) is dict and isinstance(value, dict) and len(value) > 1:
            for key, entry in value.items():
                read_value(kind, {key: entry})  # raises for the wrong entry, and names it
        mismatch = _mismatch(value, str(error))
        requirement = _choices(kind).get(mismatch.place.removeprefix("."), mismatch.requirement)
        raise MismatchError(mismatch.value, requirement, mismatch.place) from error


def abbreviate(value: Any) -> str:
    """A JSON value for an error, cut to VALUE_CHARACTERS."""
    if value is MISSING:
        return "missing"
    text = ""
    for piece in json.JSONEncoder().iterencode(value):
        text += piece
        if len(text) > VALUE_CHARACTERS:
            return f"{text[:VALUE_CHARACTERS]}…"
    return text


_MESSAGE = re.compile(r"(?P<text>.*?)( - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[(\.{3})\]")
_FIELD = re.compile(r"Object missing required field `(.*)`")
_REQUIREMENT = re.compile(r"Expected `(?P<kinds>[^`]*)`(?P<limit>.*?)(, got .*)?", re.DOTALL)
_NAMES = {
    "int": "an integer",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def _mismatch(value: Any, message: str) -> MismatchError:
    """The error in which msgspec's message becomes a sentence with the wrong value."""
    match = _MESSAGE.fullmatch(message)
    assert match  # as any text does
    text, path = match["text"], match["path"] or ""
    requirement, place = _requirement(text), ""
    for name, index, entry in _STEP.findall(path):
        if entry and len(value) > 1:  # the path has no names of an object's entries: show it whole
            return MismatchError(value, f"an object with each entry {requirement}", place)
        key = int(index) if index else name or next(iter(value))
        place += f"[{index}]" if index else f".{abbreviate(key)[1:-1]}"
        value = value[key]
    if field := _FIELD.fullmatch(text):
        return MismatchError(MISSING, "there", f"{place}.{field[1]}")
    if match["key"]:
        requirement = f"an object with each key {requirement}"
    return MismatchError(value, requirement, place)


def _choices(kind: Any) -> dict[str, str]:
    """The words for what is allowed in the fields of a dataclass that are Literals."""
    hints = get_type_hints(kind) if is_dataclass(kind) else {}
    choices = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
    return {name: " or ".join(map(abbreviate, values)) for name, values in choices.items()}


def _requirement(text: str) -> str:
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        return f"another value ({text})"
    return (
        " or ".join(_NAMES.get(kind, kind) for kind in match["kinds"].split(" | ")) + match["limit"]
    )
