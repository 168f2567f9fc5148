"""Reads the header of a safetensors file: names, dtypes, shapes and offsets of its tensors."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmspec.errors import CheckpointError

ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8,
}  # fmt: skip
"""Bytes of an element, by the safetensors dtypes that can be read."""

HEADER_LIMIT = 100_000_000
"""The format's own limit on a header, in bytes."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a safetensors file; its bytes are `file[start:end]`, row-major.

    `dtype` is safetensors' own name (F32, F16, BF16, U32, …). `writer` is the file's "format"
    entry: "pt" or "mlx", empty if it has none.
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
    try:
        size = file.stat().st_size
        header, base = _parse(file, size)
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror}") from error
    writer = _writer(header.pop("__metadata__", {}))
    tensors = {name: _entry(file, name, entry, base, writer) for name, entry in header.items()}
    _require_cover(file, tensors, base, size)
    return tensors


def _parse(file: Path, size: int) -> tuple[dict[str, Any], int]:
    """The header's JSON object and the offset at which the tensors start."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(HEADER_LIMIT, size - 8):
            raise CheckpointError(
                f"{file} is truncated or not a safetensors file: {size} bytes, "
                f"header of {length} bytes"
            )
        text = stream.read(length)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: the safetensors header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{file}: the safetensors header is not a JSON object")
    return header, 8 + length


def _writer(metadata: object) -> str:
    return str(metadata.get("format", "")) if isinstance(metadata, dict) else ""


def _entry(file: Path, name: str, entry: Any, base: int, writer: str) -> StoredTensor:
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(start), int(end)]}:
            if all(type(length) is int and length >= 0 for length in shape):
                stored = StoredTensor(
                    file, name, dtype, tuple(shape), base + start, base + end, writer
                )
                return _measured(stored)
    raise CheckpointError(f"{file}: the header's entry for {name} is malformed")


def _measured(stored: StoredTensor) -> StoredTensor:
    if stored.dtype not in ITEM_BYTES:
        raise CheckpointError(
            f"{stored.file}: {stored.name} has dtype {stored.dtype}: "
            f"only {', '.join(ITEM_BYTES)} can be read"
        )
    expected = math.prod(stored.shape) * ITEM_BYTES[stored.dtype]
    if stored.end - stored.start != expected:
        raise CheckpointError(
            f"{stored.file}: {stored.name} takes {stored.end - stored.start} bytes, but "
            f"{stored.dtype} {list(stored.shape)} needs {expected}"
        )
    return stored


def _require_cover(file: Path, tensors: dict[str, StoredTensor], base: int, size: int) -> None:
    end = base
    for stored in sorted(tensors.values(), key=lambda tensor: (tensor.start, tensor.end)):
        if stored.start != end:
            raise CheckpointError(f"{file}: {stored.name} overlaps another tensor or leaves a gap")
        end = stored.end
    if end != size:
        raise CheckpointError(f"{file} is truncated or overlong: {size} bytes, expected {end}")
