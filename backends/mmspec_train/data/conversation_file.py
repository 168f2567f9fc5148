"""One file of conversations: its values one by one, which can be trained on, and why others cannot.

A library that reads JSON in pieces tells no value's place, by which a conversation is read again.
"""

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mmspec.ground import errors
from mmspec.ground.input_files import open_file
from mmspec_train.data.instructions import FORMAT, Instructions, UnusableError, read_instructions

HELD_OUT_ONE_IN = 20
"""One of this many conversations of a file is held out from training."""
MOST_SKIPPED = 0.5
"""Largest share of a file's conversations that may be unusable; more is an error."""
CHUNK = 2**20
"""Bytes of an array that are read at a time."""
LONGEST_LITERAL = 16
"""Characters before the end of a text at which its JSON may be wrong only because it is cut."""
_BETWEEN = re.compile(r"[\s,]*")
_NO_UTF_8 = re.compile("[\udc80-\udcff]")
"""Pattern of the characters that stand for bytes which are not UTF-8."""
_DECODER = json.JSONDecoder(strict=False)
_NO_TEXT = "not text in UTF-8"


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of a file and its place."""

    number: int
    """The number of the line or of the element, from 1."""
    offset: int
    """The value's first byte."""
    size: int
    """The value's number of bytes."""
    value: Any
    error: str = ""
    """Why there is no value; empty if there is."""


@dataclass
class Index:
    """The usable conversations of a file, and the others counted by reason."""

    places: NDArray[np.int64]
    """Number, first byte and size in bytes of each usable conversation [n, 3]."""
    total: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Number and description of the first conversation that was skipped for each reason."""

    def skip(self, entry: Entry, problem: UnusableError) -> None:
        """Count a conversation that cannot be trained on."""
        self.skipped[problem.reason] += 1
        self.first.setdefault(problem.reason, (entry.number, str(problem)))


@dataclass(frozen=True)
class ConversationFile:
    """Batch in LLaVA's or ShareGPT's format: JSON lines, or one JSON array.

    Image paths are relative to `images`, or to its parent if they begin with its name.
    """

    path: Path
    images: Path

    @cached_property
    def index(self) -> Index:
        """Read the whole file once.  Raises UsageError if it cannot be read."""
        index, places = Index(np.empty((0, 3), np.int64)), []
        try:
            for entry in read_entries(self.path):
                index.total += 1
                try:
                    index.repaired.update(self._usable(entry).repairs)
                    places.append((entry.number, entry.offset, entry.size))
                except UnusableError as problem:
                    index.skip(entry, problem)
        except OSError as error:
            raise errors.UsageError(f"cannot read {self.path}: {error.strerror}") from error
        index.places = np.array(places, np.int64).reshape(-1, 3)
        return index

    def _usable(self, entry: Entry) -> Instructions:
        if entry.error:
            raise UnusableError("in broken JSON", entry.error)
        instructions = read_instructions(entry.value)
        for image in instructions.images:
            if not self.find(image).is_file():
                raise UnusableError("without their image", f"there is no image {self.find(image)}")
        return instructions

    def find(self, image: str) -> Path:
        """Return the path of an image as the file gives it."""
        first = Path(image).parts[:1]
        under_parent = first == (self.images.name,) and not (self.images / image).is_file()
        return (self.images.parent if under_parent else self.images) / image

    def places(self, *, held_out: bool) -> NDArray[np.int64]:
        """Return the places of one in 20 conversations, or of the others; see `Index.places`."""
        places = self.index.places
        chosen = (places[:, 0] % HELD_OUT_ONE_IN == 0) == held_out
        return np.compress(chosen, places, axis=0)

    def read(self, place: NDArray[np.int64]) -> Instructions:
        """Read a usable conversation."""
        _, offset, size = place.tolist()
        return read_instructions(read_value(self.path, offset, size))

    def check(self) -> None:
        """Raise UsageError if most conversations are unusable, or too few are left."""
        index, usable = self.index, len(self.index.places)
        if index.total - usable > MOST_SKIPPED * index.total:
            raise errors.UsageError(self._unusable())
        if usable < HELD_OUT_ONE_IN:
            raise errors.UsageError(
                f"{self.path} has {usable} usable conversation{'' if usable == 1 else 's'}: give "
                f"at least {HELD_OUT_ONE_IN}, of which one in {HELD_OUT_ONE_IN} is held out"
            )

    def _unusable(self) -> str:
        index = self.index
        [(reason, count)] = index.skipped.most_common(1)
        number, detail = index.first[reason]
        remedy = f"a conversation is like {FORMAT}"
        if reason == "without their image":
            remedy = "give the directory of the images by --images"
        return (
            f"{self.path}:{number}: {detail}; {count} of {index.total} conversations are {reason}: "
            f"{remedy}"
        )

    def summary(self) -> str:
        """Return a line with what was skipped and repaired; empty if nothing was."""
        index = self.index
        skipped = [
            f"{count} {reason} (first: {index.first[reason][0]})"
            for reason, count in index.skipped.most_common()
        ]
        repaired = [f"{count} {what}" for what, count in index.repaired.most_common()]
        parts = [
            f"{verb} {', '.join(counts)}"
            for verb, counts in (("skipped", skipped), ("repaired", repaired))
            if counts
        ]
        return "; ".join([f"{self.path.name}: {index.total} conversations", *parts] * bool(parts))


def read_entries(path: Path) -> Iterator[Entry]:
    """Yield the values of a file of JSON lines or of one JSON array; blank lines are left out.

    What is no JSON is an entry with an error. An array is not read beyond such a place. Raises
    OSError.
    """
    with open_file(path) as file:
        offset = 3 if file.read(3) == codecs.BOM_UTF8 else 0
        file.seek(offset)
        is_array = file.read(CHUNK).lstrip().startswith(b"[")
        file.seek(offset)
        yield from _elements(file, offset) if is_array else _lines(file, offset)


def read_value(path: Path, offset: int, size: int) -> Any:
    """Read again the value at a place that `read_entries` gave."""
    with open_file(path) as file:
        file.seek(offset)
        return _DECODER.decode(file.read(size).decode())


def _lines(file: BinaryIO, offset: int) -> Iterator[Entry]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            yield _line(number, offset, line)
        offset += len(line)


def _line(number: int, offset: int, line: bytes) -> Entry:
    value, error = None, ""
    try:
        value = _DECODER.decode(line.decode())
    except UnicodeDecodeError:
        error = _NO_TEXT
    except json.JSONDecodeError as problem:
        error = f"not JSON: {problem.msg}, at character {problem.pos + 1}"
    except (ValueError, RecursionError) as problem:  # too many digits, too many brackets
        error = f"not JSON: {problem}"
    return Entry(number, offset, len(line), value, error)


def _elements(file: BinaryIO, offset: int) -> Iterator[Entry]:
    """Yield the elements of an array that begins at byte `offset`, where the file stands."""
    decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
    buffer = decode(file.read(CHUNK))
    number, at, end = 0, 0, buffer.index("[") + 1
    while True:
        gap = _BETWEEN.match(buffer, end)
        end = gap.end() if gap else end
        offset += _size(buffer[at:end])
        at = end
        if buffer.startswith("]", at):
            return
        try:
            value, end = _DECODER.raw_decode(buffer, at)
        except (ValueError, RecursionError) as problem:
            chunk = decode(file.read(CHUNK)) if _may_be_cut(problem, buffer) else ""
            if not chunk:
                error = f"not JSON from byte {offset} on, where reading ended: {problem}"
                yield Entry(number + 1, offset, 0, None, error)
                return
            buffer, at, end = buffer[at:] + chunk, 0, 0
            continue
        number, text = number + 1, buffer[at:end]
        error = _NO_TEXT if _NO_UTF_8.search(text) else ""
        yield Entry(number, offset, _size(text), None if error else value, error)


def _may_be_cut(problem: Exception, text: str) -> bool:
    """True if JSON may be wrong only because the rest of it has not been read."""
    if not isinstance(problem, json.JSONDecodeError):
        return False
    return problem.msg.startswith("Unterminated") or problem.pos + LONGEST_LITERAL > len(text)


def _size(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))
