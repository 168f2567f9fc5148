"""Copies tensors between safetensors files, byte by byte."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mmspec.checkpoints.safetensors_header import StoredTensor
from mmspec.ground.errors import CheckpointError


class Content(NamedTuple):
    """One tensor; the bytes are row-major, least significant first."""

    dtype: str
    """Safetensors' own name: F32, F16, BF16, I64, BOOL, …"""
    shape: tuple[int, ...]
    content: bytes


def stored_content(stored: StoredTensor) -> Content:
    """A stored tensor with its bytes; raises CheckpointError if they cannot be read."""
    size = stored.end - stored.start
    try:
        with stored.file.open("rb") as file:
            file.seek(stored.start)
            content = file.read(size)
    except OSError as error:
        raise CheckpointError(f"cannot read {stored.file}: {error.strerror}") from error
    if len(content) != size:
        raise CheckpointError(f"{stored.file} ends inside {stored.name}: download it again")
    return Content(stored.dtype, stored.shape, content)


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
