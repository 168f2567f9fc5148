"""Reads the JSON object of a request; errors name the field, its value and what is allowed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmspec.ground.json_reader import MismatchError, parse_json, read_value, shown
from mmspec_server.errors import ApiError


def read_json(body: bytes) -> "Fields":
    """The JSON object in a request's body; raises ApiError for anything else."""
    try:
        values = parse_json(body)
    except ValueError as error:
        raise ApiError(400, f"the body is not valid JSON: {error}", code="invalid_json") from error
    if not isinstance(values, dict):
        raise ApiError(400, f"the body must be a JSON object, not {_kind(values)}")
    return Fields(values)


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object of a request; `path` leads to it, such as 'messages[0].'.

    A field that is null counts as missing, and a field that nobody reads is ignored. Methods raise
    ApiError for a value that is not allowed.
    """

    values: Mapping[str, Any]
    path: str = ""

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        value = self.values.get(key)
        return default if value is None else value

    def error(self, key: str, allowed: str) -> ApiError:
        """The error for the value of `key`; `allowed` completes the sentence "must be …"."""
        value, name = self.values.get(key), self.path + key
        got = "is missing" if value is None else f"is {shown(value)}"
        return ApiError(400, f"{name} {got}: it must be {allowed}", name, "invalid_value")

    def read(self, key: str, kind: Any, default: Any = None) -> Any:
        """The value of `key` as an annotation describes it; without a default it must be there."""
        try:
            return read_value(kind, self.get(key, default))
        except MismatchError as error:
            raise self.error(key, error.allowed) from error

    def text(self, key: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        return str(self.read(key, str, default))

    def flag(self, key: str) -> bool:
        """True or false; false if it is missing."""
        return bool(self.read(key, bool, False))

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """A number from `least` to `most`."""
        value = float(self.read(key, float, default))
        if not least <= value <= most:
            raise self.error(key, f"a number from {least:g} to {most:g}")
        return value

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        """An integer from `least` to `most`."""
        value = int(self.read(key, int, default))
        if not least <= value <= most:
            raise self.error(key, f"an integer from {least:,} to {most:,}")
        return value

    def block(self, key: str) -> "Fields":
        """The object at `key`; empty if it is missing."""
        value = self.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, "an object")
        return Fields(value, f"{self.path}{key}.")

    def blocks(self, key: str) -> "Sequence[Fields]":
        """The objects of the list at `key`, which must not be empty."""
        value = self.get(key, [])
        if not isinstance(value, list) or not value:
            raise self.error(key, "a list of at least one object")
        return [self._block(key, index, entry) for index, entry in enumerate(value)]

    def _block(self, key: str, index: int, entry: Any) -> "Fields":
        name = f"{key}[{index}]"
        if not isinstance(entry, dict):
            raise Fields({name: entry}, self.path).error(name, "an object")
        return Fields(entry, f"{self.path}{name}.")


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
