"""Reads JSON files; errors name the file, the key, the value and what is allowed."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.ground.input_files import read_errors, read_text
from mmspec.ground.json_reader import MismatchError, abbreviate, parse_json, read_value

T = TypeVar("T")

JSON_BYTES = 16_000_000
"""The most bytes of a JSON file: reading one takes up to 25 times as much memory."""
LINES_BYTES = 500_000_000
"""The most bytes of a file of JSON lines."""


def Range(least: float, most: float) -> Meta:
    """Annotation: the least and the most that a number may be."""
    return Meta(ge=least, le=most)


def Length(least: int, most: int) -> Meta:
    """Annotation: the least and the most entries of a list or object, or characters of a text."""
    return Meta(min_length=least, max_length=most)


def Matches(pattern: str) -> Meta:
    """Annotation: a regular expression for a whole text."""
    return Meta(pattern=rf"^({pattern})\Z")


def read_json(file: Path) -> dict[str, Any]:
    """The JSON object in `file`; raises CheckpointError if there is none."""
    text = read_whole(file, JSON_BYTES)
    try:
        value = parse_json(text)
    except ValueError as error:
        raise CheckpointError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} must hold a JSON object, not {type(value).__name__}")
    return value


def read_whole(file: Path, most: int) -> str:
    """The text of a file of at most `most` bytes; raises CheckpointError."""
    with read_errors(file, CheckpointError):
        return read_text(file, most)


def read_lines(file: Path) -> list[str]:
    """The lines of a JSON-lines file, including blank ones; raises UsageError if it cannot be read.

    Only a line feed ends a line: JSON strings can contain Unicode's other line separators.
    """
    with read_errors(file, UsageError):
        return read_text(file, LINES_BYTES).split("\n")


def parse_as(kind: type[T], text: str, where: str, remedy: str = "") -> T:
    """The JSON `text` as the annotation `kind` describes it; raises UsageError naming `where`.

    remedy: ends the error.
    """
    try:
        return read_value(kind, parse_json(text))
    except MismatchError as error:
        raise UsageError(f"{where}: {error}{remedy}") from error
    except ValueError as error:
        raise UsageError(f"{where}: not JSON ({error}){remedy}") from error


def parse_lines(
    kind: type[T], lines: Iterable[str], file: Path, remedy: str = ""
) -> Iterator[tuple[int, T]]:
    """Number and value of each line of `file` that is not blank, as `parse_as` reads it."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, parse_as(kind, line, f"{file}:{number}", remedy)


class JsonObject(ABC):
    """A JSON object, to which `path` leads; a key whose value is null counts as missing."""

    values: Mapping[str, Any]
    path: str

    @abstractmethod
    def wrong(self, error: MismatchError) -> Exception:
        """The exception for a value at a place within the object."""

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` if the key is missing or null."""
        value = self.values.get(key)
        return default if value is None else value

    def error(self, key: str, requirement: str) -> Exception:
        """The error for the value of `key`; `requirement` completes the sentence "must be …"."""
        return self.wrong(MismatchError(self.get(key, MISSING), requirement, f".{key}"))

    def read(self, key: str, kind: Any, default: Any) -> Any:
        """The value of `key` as the annotation `kind` describes it; see `json_reader`."""
        value = self.get(key, default)
        try:
            return read_value(kind, value)
        except MismatchError as error:
            if value is default:
                raise self.error(key, error.requirement) from error
            raise self.wrong(error.within(f".{key}")) from error

    def flag(self, key: str, default: bool = False) -> bool:
        """The value, which must be true or false."""
        return bool(self.read(key, bool, default))

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        """The value of `key`, which must be an integer from `least` to `most`."""
        return int(self.read(key, Annotated[int, Range(least, most)], default))

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """The value of `key`, which must be a number from `least` to `most`."""
        return float(self.read(key, Annotated[float, Range(least, most)], default))


@dataclass(frozen=True)
class Block(JsonObject):
    """A JSON object in `file`. Its methods raise CheckpointError."""

    values: dict[str, Any]
    file: Path
    path: str = ""

    @classmethod
    def of(cls, file: Path) -> "Block":
        """The JSON object in `file`; raises CheckpointError if there is none."""
        return cls(read_json(file), file)

    def wrong(self, error: MismatchError) -> CheckpointError:
        """The error, which names the file."""
        return CheckpointError(f"{self.file}: {error.within(self.path and '.' + self.path[:-1])}")

    def record(self, kind: type[T], **defaults: Any) -> T:
        """The whole object as a dataclass; defaults: values of keys that are missing."""
        present = {key: value for key, value in self.values.items() if value is not None}
        try:
            return read_value(kind, defaults | present)
        except MismatchError as error:
            raise self.wrong(error) from error

    def block(self, key: str) -> "Block":
        """The object at `key`, empty if the key is missing."""
        value = self.read(key, dict[str, Any], {})
        return Block(value, self.file, f"{self.path}{key}.")

    def with_values(self, **values: Any) -> "Block":
        """The object with other values of some keys."""
        return Block(self.values | values, self.file, self.path)

    def only(self, key: str, choices: Sequence[Any], default: Any) -> Any:
        """The value of `key`, which must be one of `choices`."""
        value = self.get(key, default)
        if value not in choices or isinstance(value, bool) != isinstance(choices[0], bool):
            raise self.error(key, " or ".join(map(abbreviate, choices)))
        return value
