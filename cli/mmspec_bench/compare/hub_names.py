"""Rewrites a checkpoint under the hub's tensor names, for loaders that know no others."""

import json
import shutil
from pathlib import Path

NEW, HUB = "vision_tower.", "vision_tower.vision_model."
LENGTH_BYTES = 8


def with_hub_names(directory: Path, into: Path) -> Path:
    """The directory if its tower has the hub's names, else a copy in `into` that has.

    An existing copy is reused.  The tensors' bytes are copied unchanged: only the JSON header of a
    safetensors file names them.
    """
    if into.exists():
        return into
    files = sorted(directory.glob("*.safetensors"))
    if not any(_is_new(name) for file in files for name in _header(file)):
        return directory
    shutil.copytree(directory, into, ignore=shutil.ignore_patterns("*.safetensors*"))
    for file in files:
        _rename(file, into / file.name)
    return into


def _is_new(name: str) -> bool:
    return name.startswith(NEW) and not name.startswith(HUB)


def _header(file: Path) -> dict[str, object]:
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(LENGTH_BYTES), "little")
        header: dict[str, object] = json.loads(opened.read(length))
    return header


def _rename(source: Path, destination: Path) -> None:
    renamed = {
        name.replace(NEW, HUB, 1) if _is_new(name) else name: value
        for name, value in _header(source).items()
    }
    header = json.dumps(renamed).encode()
    header += b" " * (-len(header) % LENGTH_BYTES)
    with source.open("rb") as read, destination.open("wb") as written:
        read.seek(LENGTH_BYTES + int.from_bytes(read.read(LENGTH_BYTES), "little"))
        written.write(len(header).to_bytes(LENGTH_BYTES, "little") + header)
        shutil.copyfileobj(read, written)
