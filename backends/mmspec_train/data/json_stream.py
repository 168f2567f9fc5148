"""Values of a large JSON file one by one: lines, or the elements of one array."""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from mmspec.ground.input_files import open_file

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
        end = _after_gap(buffer, end)
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
        number += 1
        yield _entry(number, offset, buffer[at:end], value)


def _entry(number: int, offset: int, text: str, value: Any) -> Entry:
    size = _size(text)
    error = _NO_TEXT if _NO_UTF_8.search(text) else ""
    return Entry(number, offset, size, None if error else value, error)


def _after_gap(text: str, start: int) -> int:
    gap = _BETWEEN.match(text, start)
    return gap.end() if gap else start


def _may_be_cut(problem: Exception, text: str) -> bool:
    """True if JSON may be wrong only because the rest of it has not been read."""
    if not isinstance(problem, json.JSONDecodeError):
        return False
    return problem.msg.startswith("Unterminated") or problem.pos + LONGEST_LITERAL > len(text)


def _size(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))
