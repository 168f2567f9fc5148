"""One file of conversations: those that can be trained on, and why others cannot."""

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mmspec.ground import errors
from mmspec.ground.input_files import open_file
from mmspec_train.data.instructions import FORMAT, Instructions, UnusableError, read_instructions

HELD_OUT_ONE_IN = 20
"""One of this many conversations of a file is held out from training."""
MOST_SKIPPED = 0.5
"""Largest share of a file's conversations that may be unusable; more is an error."""


@dataclass
class Index:
    """The conversations of a file by number: the line's or the element's, from 1."""

    usable: dict[int, Instructions] = field(default_factory=dict)
    total: int = 0
    first: tuple[int, str] = 0, ""
    """Number of the first conversation that is left out, and why."""


@dataclass(frozen=True)
class ConversationFile:
    """Conversations in LLaVA's or ShareGPT's format: JSON lines, or one JSON array.

    Image paths are relative to `images`, or to its parent if they begin with its name.
    """

    path: Path
    images: Path

    @cached_property
    def index(self) -> Index:
        """Read the whole file once.  Raises UsageError if it cannot be read."""
        index = Index()
        for number, value in self._values():
            index.total += 1
            try:
                index.usable[number] = self._usable(value)
            except UnusableError as problem:
                index.first = index.first if index.first[0] else (number, str(problem))
        return index

    def _values(self) -> Iterator[tuple[int, Any]]:
        """Yield each line, or each element of an array, with its number."""
        try:
            with open_file(self.path) as file:
                content = file.read().removeprefix(codecs.BOM_UTF8)
        except OSError as error:
            raise errors.UsageError(f"cannot read {self.path}: {error.strerror}") from error
        if content.lstrip().startswith(b"["):
            try:
                yield from enumerate(_decoded(content), start=1)
            except UnusableError as problem:
                raise errors.UsageError(f"{self.path}: {problem}") from problem
        else:
            lines = enumerate(content.split(b"\n"), start=1)
            yield from ((number, line) for number, line in lines if line.strip())

    def _usable(self, value: Any) -> Instructions:
        """Return the conversation of a JSON value, or of a line.  Raises UnusableError."""
        value = _decoded(value) if isinstance(value, bytes) else value
        instructions = read_instructions(value)
        for image in instructions.images:
            if not self.find(image).is_file():
                raise UnusableError(f"there is no image {self.find(image)} (--images)")
        return instructions

    def find(self, image: str) -> Path:
        """Return the path of an image as the file gives it."""
        first = Path(image).parts[:1]
        under_parent = first == (self.images.name,) and not (self.images / image).is_file()
        return (self.images.parent if under_parent else self.images) / image

    def numbers(self, *, held_out: bool) -> list[int]:
        """Return the numbers of one in 20 usable conversations, or of the others."""
        return [n for n in self.index.usable if (n % HELD_OUT_ONE_IN == 0) == held_out]

    def check(self) -> None:
        """Raise UsageError if most conversations are unusable, or too few are left."""
        index, usable = self.index, len(self.index.usable)
        if index.total - usable > MOST_SKIPPED * index.total:
            number, reason = index.first
            raise errors.UsageError(
                f"{self.path}:{number}: {reason}; {index.total - usable} of {index.total} "
                f"conversations cannot be used: one is like {FORMAT}"
            )
        if usable < HELD_OUT_ONE_IN:
            raise errors.UsageError(
                f"{self.path} has {usable} usable conversation{'' if usable == 1 else 's'}: give "
                f"at least {HELD_OUT_ONE_IN}, of which one in {HELD_OUT_ONE_IN} is held out"
            )

    def summary(self) -> str:
        """Return a line on the conversations that are left out; empty if none is."""
        index, (number, reason) = self.index, self.index.first
        left_out = f"{index.total - len(index.usable)} of {index.total} conversations are left out"
        return f"{self.path.name}: {left_out}, first {number}: {reason}" if number else ""


def _decoded(content: bytes) -> Any:
    """Return the value of JSON text, which may contain control characters in strings."""
    try:
        return json.loads(content.decode(), strict=False)
    except UnicodeDecodeError as error:
        raise UnusableError(f"not text in UTF-8: {error.reason}") from error
    except (ValueError, RecursionError) as error:  # also too many digits, too many brackets
        raise UnusableError(f"not JSON: {error}") from error
