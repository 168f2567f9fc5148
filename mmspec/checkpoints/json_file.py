"""Reads JSON files; errors name the file, the key, the value and what is allowed."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmspec.errors import CheckpointError, UsageError


def read_json(file: Path) -> dict[str, Any]:
    """The JSON object in `file`; raises CheckpointError if there is none."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} must hold a JSON object, not {type(value).__name__}")
    return value


def read_lines(file: Path) -> list[str]:
    """The lines of a JSON-lines file, including blank ones; raises UsageError if it cannot be read.

    Only a line feed ends a line: JSON strings can contain Unicode's other line separators.
    """
    try:
        return file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error


@dataclass(frozen=True)
class Block:
    """A JSON object in `file`, where `path` leads to it. Its methods raise CheckpointError."""

    values: dict[str, Any]
    file: Path
    path: str = ""

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` if the key is missing or null."""
        value = self.values.get(key)
        return default if value is None else value

    def error(self, key: str, allowed: str) -> CheckpointError:
        """The error for the value of `key`; `allowed` completes the sentence "must be …"."""
        got = json.dumps(self.values.get(key))
        return CheckpointError(f"{self.file}: {self.path}{key} is {got}, but must be {allowed}")

    def block(self, key: str) -> "Block":
        """The object at `key`, empty if the key is missing."""
        value = self.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, "an object")
        return Block(value, self.file, f"{self.path}{key}.")

    def only(self, key: str, allowed: Sequence[Any], default: Any) -> Any:
        """The value of `key`, which must be one of `allowed`."""
        value = self.get(key, default)
        if value not in allowed or isinstance(value, bool) != isinstance(allowed[0], bool):
            raise self.error(key, " or ".join(map(json.dumps, allowed)))
        return value

    def flag(self, key: str, default: bool) -> bool:
        """The value, which must be true or false."""
        return bool(self.only(key, (default, not default), default))

    def count(self, key: str, default: int) -> int:
        """The value of `key`, which must be a positive integer."""
        value = self.get(key, default)
        if type(value) is not int or value < 1:
            raise self.error(key, "a positive integer")
        return value

    def index(self, key: str, default: int) -> int:
        """The value of `key`, which must be an integer of either sign."""
        value = self.get(key, default)
        if type(value) is not int:
            raise self.error(key, "one integer")
        return value

    def number(self, key: str, default: float) -> float:
        """The value of `key`, which must be a positive finite number."""
        value = self.get(key, default)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value <= sys.float_info.max:
            raise self.error(key, "a positive number")
        return float(value)
