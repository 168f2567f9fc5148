"""The error for a JSON value that is not as described."""

import json
from dataclasses import MISSING
from typing import Any

SHOWN = 60
"""Characters of a wrong value that its error repeats."""


class MismatchError(ValueError):
    """A value that is not as described: its place, such as rounds[3], itself, what is allowed."""

    def __init__(self, value: Any, allowed: str, place: str = "") -> None:
        """allowed: completes the sentence "must be …"."""
        super().__init__(value, allowed, place)
        self.value, self.allowed, self.place = value, allowed, place

    def __str__(self) -> str:
        place = self.place.removeprefix(".") or "the value"
        return f"{place} is {shown(self.value)}, but must be {self.allowed}"

    def within(self, place: str) -> "MismatchError":
        """The error as the outer value has it, in which the wrong one is at `place`."""
        return MismatchError(self.value, self.allowed, place + self.place)


def shown(value: Any) -> str:
    """A JSON value for an error, cut to SHOWN characters."""
    if value is MISSING:
        return "missing"
    text = ""
    for piece in json.JSONEncoder().iterencode(value):
        text += piece
        if len(text) > SHOWN:
            return f"{text[:SHOWN]}…"
    return text
