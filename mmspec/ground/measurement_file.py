"""A file with what was measured on this machine, and with all that it depends on, its key."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from mmspec.ground.errors import CheckpointError
from mmspec.ground.input_files import read_errors, require_file
from mmspec.ground.json_file import Block
from mmspec.ground.output_files import make_directory, replace_text, write_errors

M = TypeVar("M")
"""A dataclass with what was measured; JSON-serializable."""


def read_measurement(path: Path, kind: type[M]) -> tuple[dict[str, Any], M]:
    """The key and the measurement in a file.  Raises CheckpointError."""
    block = Block.of(path)
    return block.block("key").values, block.record(kind)


@dataclass(frozen=True)
class MeasurementFile(Generic[M]):
    """The file of a measurement of one kind with one key, which is JSON-serializable."""

    path: Path
    kind: type[M]
    key: Mapping[str, Any]

    def read(self) -> M | None:
        """The measurement; None without a file.  Raises CheckpointError, also for another key."""
        with read_errors(self.path, CheckpointError):
            if not self.path.exists():
                return None
        key, measurement = read_measurement(self.path, self.kind)
        if key != self.key:
            raise CheckpointError(f"{self.path} is of another machine, backend or model")
        return measurement

    def write(self, measurement: M) -> None:
        """Replace the file atomically; raises WriteError."""
        values = {"key": dict(self.key)}
        values |= asdict(measurement)  # type: ignore[call-overload]  # M is a dataclass
        make_directory(self.path.parent)
        with write_errors(self.path):
            if self.path.exists():
                require_file(self.path)  # a pipe would be waited for
        replace_text(self.path, json.dumps(values, indent=1) + "\n")
