"""The file of `mmspec calibrate`: seconds of target forwards and drafted tokens by context.

The file is optional: if it is missing or unreadable, costs are measured during decoding.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mmspec.checkpoints.json_file import Block, read_json
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.cost_curves import Curves, at_context
from mmspec.errors import CheckpointError
from mmspec.output_files import make_directory, replace_text

ROWS = 16
"""Number of rows in the largest target forward that is measured."""
CONTEXTS = (64, 512, 2048, 8192)
"""Context lengths at which costs are measured, as far as the models have positions."""
PLAUSIBLE = 0.8
"""Lower limit of a forward's seconds over several rows, divided by its seconds over one row."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Median seconds measured on this machine by context; empty if nothing was measured."""

    target: Curves = field(default_factory=dict)
    """Seconds of a target forward by its number of rows, 1 to ROWS."""
    draft: Curves = field(default_factory=dict)
    """Seconds of one drafted token of a chain by the number of branches (views in one batch)."""

    def round_costs(self, branches: int, context: int) -> dict[int, float]:
        """Seconds c(gamma) of a round that drafts a chain, by gamma from 0 to MAX_AUTO_GAMMA.

        branches: 0 if no model drafts. Empty if target or draft were not measured.
        """
        target = at_context(self.target, context)
        token = at_context(self.draft, context).get(branches) if branches else 0.0
        if token is None or 1 not in target:
            return {}
        by_gamma = {rows - 1: seconds for rows, seconds in target.items()}
        return {g: seconds + g * token for g, seconds in by_gamma.items() if g <= MAX_AUTO_GAMMA}

    @property
    def is_plausible(self) -> bool:
        """False if several rows were much faster than a single one: the machine was busy then."""
        return all(
            seconds > PLAUSIBLE * curve.get(1, 0.0)
            for curve in self.target.values()
            for seconds in curve.values()
        )


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
            return Calibration(_curves(block.block("target")), _curves(block.block("draft"))), ""
        except (CheckpointError, OSError) as error:
            return Calibration(), f"calibration not used ({error}): run `mmspec calibrate`"

    def write(self, calibration: Calibration) -> None:
        """Replace the file atomically; raises WriteError."""
        text = json.dumps({"key": dict(self.key)} | asdict(calibration), indent=1)
        make_directory(self.path.parent)
        replace_text(self.path, text + "\n")


def _curves(block: Block) -> dict[int, dict[int, float]]:
    """Parse seconds by context and number of rows or branches; raises CheckpointError."""
    curves: dict[int, dict[int, float]] = {}
    for name in block.values:
        if not name.isdecimal():
            raise block.error(name, "absent: contexts are numbers of positions")
        curves[int(name)] = _seconds(block.block(name))
    return curves


def _seconds(block: Block) -> dict[int, float]:
    """Parse seconds by number of rows or branches, 1 to ROWS; raises CheckpointError."""
    allowed = {str(number): number for number in range(1, ROWS + 1)}
    for name in block.values:
        if name not in allowed:
            raise block.error(name, f"absent: counts go from 1 to {ROWS}")
    return {allowed[name]: block.number(name, 0.0) for name in block.values}
