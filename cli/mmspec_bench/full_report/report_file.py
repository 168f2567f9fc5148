"""The report's file: what an earlier run left in it, and a size that can be attached."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmspec.diagnostics.check import EXIT_CODES
from mmspec.ground.errors import CheckpointError
from mmspec.ground.json_file import Block, read_json
from mmspec.ground.output_files import replace_text

FORMAT = 2
"""Version of the file's layout; files of other versions are measured anew."""
LIMIT = 200_000
"""Bytes of the largest file."""


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What an earlier run left."""

    key: dict[str, Any]
    stages: dict[str, dict[str, Any]]
    starts: dict[str, int]


@dataclass(slots=True)
class ReportFile:
    """The stages that are over; every change is written at once, so that a kill loses no more."""

    path: Path
    key: Mapping[str, Any]
    """All that the results depend on; JSON-serializable."""
    about: Mapping[str, Any]
    """What else the report says of the machine."""
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    """How often each stage was started."""

    def resume(self) -> bool:
        """Take the stages of the file if it has the same key; True if there are any."""
        try:
            earlier = Block(read_json(self.path), self.path).record(_Earlier)
        except CheckpointError:
            return False
        if earlier.key != json.loads(json.dumps(self.key)):
            return False
        self.stages = earlier.stages
        self.starts = earlier.starts
        return bool(self.stages)

    def is_over(self, name: str) -> bool:
        """True if a stage need not run again: it did not fail, and was not skipped."""
        stage = self.stages.get(name, {})
        return bool(stage.get("ok")) and "skipped" not in stage

    def start(self, name: str) -> None:
        """Write that a stage is running; raises WriteError."""
        self.starts[name] = self.starts.get(name, 0) + 1
        self.write()

    def end(self, name: str, outcome: dict[str, Any]) -> None:
        """Write what a stage found; raises WriteError."""
        self.stages[name] = outcome
        self.write()

    def write(self) -> None:
        """Replace the file; raises WriteError."""
        replace_text(self.path, text_of(self.as_dict()))

    def as_dict(self) -> dict[str, Any]:
        """The whole report as a JSON-serializable object."""
        failed = not all(passed(stage) for stage in self.stages.values())
        return {
            "key": dict(self.key),
            **self.about,
            "starts": self.starts,
            "stages": self.stages,
            "exit_code": int(failed),
        }


def passed(stage: Mapping[str, Any]) -> bool:
    """True if a stage found nothing worse than a near-tie, or could not run on this machine."""
    return stage["ok"] and stage["result"].get("exit_code", 0) in (0, EXIT_CODES["near-tie"])


def text_of(report: Mapping[str, Any]) -> str:
    """The report as JSON in at most LIMIT bytes: the largest results give way to their sizes."""
    stages = dict(report["stages"])
    by_size = sorted(stages, key=lambda name: len(json.dumps(stages[name])), reverse=True)
    text = _json(report)
    for name in by_size:
        if len(text.encode()) <= LIMIT:
            break
        stages[name] = _without_result(stages[name])
        text = _json({**report, "stages": stages})
    return text


def _without_result(stage: dict[str, Any]) -> dict[str, Any]:
    result = stage.get("result", {})
    size = f"{len(json.dumps(result)):,} bytes, for the file has at most {LIMIT:,}"
    return stage | {"result": {"left_out": size, "exit_code": result.get("exit_code", 0)}}


def _json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"
