"""The options of a run, saved in its directory: only a run with the same options resumes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmspec.checkpoints.config import CONFIG_FILE
from mmspec.ground import errors
from mmspec.ground.input_files import is_there
from mmspec.ground.json_file import read_json
from mmspec.ground.output_files import make_directory, replace_text

NEW_OUT = "give another --out, or the options of before"
"""The remedy that an error names if `--out` belongs to a run with other options."""


def manifest_of(out: Path) -> Path:
    """The file of the options of the run in `out`; UsageError if a model is there without one."""
    file = out / "training" / "about.json"
    if is_there(out / CONFIG_FILE) and not is_there(file):
        raise errors.UsageError(f"{out} holds a model: give another --out")
    return file


def check_manifest(file: Path, options: dict[str, Any], remedy: str) -> None:
    """Raise UsageError, naming the first difference, if `file` holds other options."""
    if not is_there(file):
        return
    before = dict(_flat(read_json(file)))
    for name, value in _flat(json.loads(json.dumps(options))):
        if before.get(name) != value:
            was = repr(before[name]) if name in before else "missing (another version of mmspec)"
            raise errors.UsageError(f"{file}: {name} is {was}, but is now {value!r}: {remedy}")


def claim(file: Path, options: dict[str, Any], remedy: str) -> None:
    """Write the options to `file`, or check them if it exists. Raises as `check_manifest` does."""
    check_manifest(file, options, remedy)
    if not file.exists():
        make_directory(file.parent)
        replace_text(file, json.dumps(options, indent=1) + "\n")


def _flat(options: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
