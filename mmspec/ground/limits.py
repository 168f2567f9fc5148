"""What an annotation allows beside its type."""

from dataclasses import dataclass
from math import inf
from typing import Any


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the most that a number may be, or the length of a text, list or object."""

    least: float = -inf
    most: float = inf

    def __str__(self) -> str:
        return f"from {_written(self.least)} to {_written(self.most)}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """All values that are allowed, where a Literal cannot list them."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """A regular expression for a whole text, and the words for it."""

    pattern: str
    allowed: str


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that an object must have beside any others."""

    names: tuple[str, ...]


def _written(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"
