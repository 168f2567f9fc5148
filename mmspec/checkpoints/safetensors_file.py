"""Safetensors files: their headers, with each tensor's place, and copies byte by byte."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from mmspec.ground.errors import CheckpointError
from mmspec.ground.input_files import read_errors, require_file
from mmspec.ground.json_file import Length, Matches, Range
from mmspec.ground.json_reader import MismatchError, abbreviate, read_value

ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8,
}  # fmt: skip
"""Bytes of an element, by the safetensors dtypes that can be read."""

HEADER_BYTES = 16_000_000
"""The most bytes of a header, of which the format allows 100 MB: reading takes memory for each."""

TensorName = Annotated[str, Matches(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,1000}")]
Offset = Annotated[int, Range(0, 2**63 - 1)]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tensor as the header describes it."""

    dtype: Annotated[str, Matches("|".join(ITEM_BYTES))]
    shape: Annotated[list[Offset], Length(0, 8)]
    data_offsets: tuple[Offset, Offset]


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a safetensors file; its bytes are `file[start:end]`, row-major.

    `dtype` is safetensors' name, such as BF16; `writer` the file's "format", pt, mlx or empty.
    """

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int
    writer: str = ""


def read_header(file: Path) -> dict[str, StoredTensor]:
    """The tensors of `file` by name.

    Raises CheckpointError, naming the file, if it is truncated, its header is malformed, or its
    tensors do not cover the rest of the file exactly once.
    """
    with read_errors(file, CheckpointError):
        size = require_file(file)
        header, base = _parse(file, size)
    metadata = header.pop("__metadata__", {})
    writer = str(metadata.get("format", "")) if isinstance(metadata, dict) else ""
    try:
        entries = read_value(dict[TensorName, _Entry], header)
    except MismatchError as error:
        raise CheckpointError(f"{file}: in the safetensors header {error}") from error
    tensors, end = {}, base
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        tensor = _locate(file, name, entry, base, writer)
        if tensor.start != end:
            raise CheckpointError(f"{file}: {name} overlaps another tensor or leaves a gap")
        tensors[name], end = tensor, tensor.end
    if end != size:
        raise CheckpointError(f"{file} is truncated or overlong: {size} bytes, expected {end}")
    return {name: tensors[name] for name in entries}


def _parse(file: Path, size: int) -> tuple[dict[str, Any], int]:
    """The header's JSON object and the offset at which the tensors start."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(HEADER_BYTES, size - 8):
            raise CheckpointError(
                f"{file} is truncated or not a safetensors file: {size} bytes, header of {length} "
                f"bytes, of which {HEADER_BYTES:,} are allowed"
            )
        text = stream.read(length)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: the safetensors header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{file}: the safetensors header is not a JSON object")
    return header, 8 + length


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{abbreviate(twice)} is there twice")
    return values


def _locate(file: Path, name: str, entry: _Entry, base: int, writer: str) -> StoredTensor:
    start, end = (base + offset for offset in entry.data_offsets)
    size = math.prod(entry.shape) * ITEM_BYTES[entry.dtype]
    if end - start != size:
        raise CheckpointError(
            f"{file}: {name} takes {end - start} bytes, but {entry.dtype} {entry.shape} needs "
            f"{size}"
        )
    return StoredTensor(file, name, entry.dtype, tuple(entry.shape), start, end, writer)


class Content(NamedTuple):
    """One tensor; the bytes are row-major, least significant first."""

    dtype: str
    """Safetensors' own name: F32, F16, BF16, I64, BOOL, …"""
    shape: tuple[int, ...]
    content: bytes | bytearray


def read_into(buffer: memoryview | bytearray, tensor: StoredTensor) -> None:
    """Fill a buffer of their size with a tensor's bytes; raises CheckpointError."""
    with read_errors(tensor.file, CheckpointError), tensor.file.open("rb") as file:
        file.seek(tensor.start)
        size = file.readinto(buffer)
    if size != tensor.end - tensor.start:
        raise CheckpointError(f"{tensor.file} ends inside {tensor.name}: download it again")


def read_content(tensor: StoredTensor) -> Content:
    """A stored tensor with its bytes; raises CheckpointError if they cannot be read."""
    content = bytearray(tensor.end - tensor.start)
    read_into(content, tensor)
    return Content(tensor.dtype, tensor.shape, content)


def write_safetensors(file: Path, tensors: Mapping[str, Content]) -> None:
    """Write tensors in the safetensors format to a file of a directory that is being filled."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, tensor in tensors.items():
        end = start + len(tensor.content)
        shape = list(tensor.shape)
        header[name] = {"dtype": tensor.dtype, "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            stream.write(tensor.content)
