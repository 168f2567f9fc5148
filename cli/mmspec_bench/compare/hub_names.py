"""Rewrites a checkpoint under the hub's tensor names, for loaders that know no others."""

import re
import shutil
from pathlib import Path

from mmspec.output_files import new_directory

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
    with new_directory(into) as partial:
        others = shutil.ignore_patterns("*.safetensors*")
        shutil.copytree(directory, partial, ignore=others, dirs_exist_ok=True)
        for file in files:
            _rename_tensors(file, partial / file.name)
    return into


def _rename_tensors(file: Path, copy: Path) -> None:
    """Copy a safetensors file with the hub's names in its header."""
    header = _header(file)
    renamed = _NEW.sub(_HUB, header)
    renamed += b" " * (-len(renamed) % LENGTH_BYTES)
    with file.open("rb") as source, copy.open("wb") as stream:
        source.seek(LENGTH_BYTES + len(header))
        stream.write(len(renamed).to_bytes(LENGTH_BYTES, "little") + renamed)
        shutil.copyfileobj(source, stream)


def _header(file: Path) -> bytes:
    """The JSON text at the start of a safetensors file, which names its tensors."""
    with file.open("rb") as stream:
        return stream.read(int.from_bytes(stream.read(LENGTH_BYTES), "little"))
