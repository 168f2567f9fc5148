"""The file of `mmspec calibrate`: seconds of target forwards and drafted tokens, as JSON.

The file is optional: if it is missing or unreadable, costs are measured during decoding.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmspec.checkpoints.json_file import Block, read_json
from mmspec.draft_length.round_costs import MAX_AUTO_GAMMA
from mmspec.errors import CheckpointError

ROWS = 16
"""Number of rows in the largest target forward that is measured."""
PLAUSIBLE = 0.8
"""Lower limit of a forward's seconds over several rows, divided by its seconds over one row."""

Seconds = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Median seconds measured on this machine; empty if nothing was measured."""

    target: Seconds = field(default_factory=dict)
    """Seconds of a target forward by its number of rows, 1 to ROWS."""
    draft: Seconds = field(default_factory=dict)
    """Seconds of one drafted token of a chain by the number of branches (views in one batch)."""

    def round_costs(self, branches: int) -> dict[int, float]:
        """Seconds c(gamma) of a round that drafts a chain, by gamma from 0 to MAX_AUTO_GAMMA.

        branches: 0 if no model drafts. Empty if target or draft were not measured.
        """
        token = self.draft.get(branches) if branches else 0.0
        if token is None or 1 not in self.target:
            return {}
        by_gamma = {rows - 1: seconds for rows, seconds in self.target.items()}
        return {g: seconds + g * token for g, seconds in by_gamma.items() if g <= MAX_AUTO_GAMMA}

    @property
    def is_plausible(self) -> bool:
        """False if several rows were much faster than a single one: the machine was busy then."""
        single = self.target.get(1, 0.0)
        return all(seconds > PLAUSIBLE * single for seconds in self.target.values())


@dataclass(frozen=True, slots=True)
class CalibrationFile:
    """The calibration of one machine, device, backend, dtype and pair of models."""

    path: Path
    key: Mapping[str, Any]
    """All that the costs depend on; JSON-serializable."""

    def read(self) -> tuple[Calibration, str]:
        """The calibration, empty if there is none, and a note if the file is unusable, else ''."""
        try:
            if not self.path.exists():
                return Calibration(), ""
            block = Block(read_json(self.path), self.path)
            if block.get("key") != self.key:
                raise CheckpointError(f"{self.path} is of another machine, backend or model")
            return Calibration(_seconds(block.block("target")), _seconds(block.block("draft"))), ""
        except (CheckpointError, OSError) as error:
            return Calibration(), f"calibration not used ({error}): run `mmspec calibrate`"

    def write(self, calibration: Calibration) -> None:
        """Replace the file atomically; raises OSError."""
        target, draft = dict(calibration.target), dict(calibration.draft)
        text = json.dumps({"key": dict(self.key), "target": target, "draft": draft}, indent=1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(f".{os.getpid()}")
        try:
            part.write_text(text + "\n", encoding="utf-8")
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)


def _seconds(block: Block) -> dict[int, float]:
    """Parse seconds by number of rows or branches, 1 to ROWS; raises CheckpointError."""
    allowed = {str(number): number for number in range(1, ROWS + 1)}
    for name in block.values:
        if name not in allowed:
            raise block.error(name, f"absent: counts go from 1 to {ROWS}")
    return {allowed[name]: block.number(name, 0.0) for name in block.values}
