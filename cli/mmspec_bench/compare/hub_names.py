"""Rewrites a checkpoint under the hub's tensor names, for loaders that know no others."""

import re
import shutil
from pathlib import Path

_NEW = re.compile(rb'"vision_tower\.(?!vision_model\.)')
_HUB = b'"vision_tower.vision_model.'
LENGTH_BYTES = 8


def with_hub_names(directory: Path, into: Path) -> Path:
    """The directory if its tower has the hub's names, else a copy in `into` with these names.

    An existing copy is reused.  The tensors' bytes are copied unchanged: only the JSON header of a
    safetensors file names them.
    """
    if into.exists():
        return into
    files = sorted(directory.glob("*.safetensors"))
    if not any(_NEW.search(_header(file)) for file in files):
        return directory
    shutil.copytree(directory, into, ignore=shutil.ignore_patterns("*.safetensors*"))
    for file in files:
        header = _header(file)
        renamed = _NEW.sub(_HUB, header)
        renamed += b" " * (-len(renamed) % LENGTH_BYTES)
        with file.open("rb") as source, (into / file.name).open("wb") as copy:
            source.seek(LENGTH_BYTES + len(header))
            copy.write(len(renamed).to_bytes(LENGTH_BYTES, "little") + renamed)
            shutil.copyfileobj(source, copy)
    return into


def _header(file: Path) -> bytes:
    """The JSON text at the start of a safetensors file, which names its tensors."""
    with file.open("rb") as stream:
        return stream.read(int.from_bytes(stream.read(LENGTH_BYTES), "little"))
