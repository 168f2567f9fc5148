"""What rounds cost on this machine, kept in the user's cache from one session to the next.

`mmspec calibrate` measures it; answers that draft chains leave what is news in what these cost.
A file belongs to one machine, device, backend version, type and pair of models.  It holds numbers
alone and is never needed: one that cannot be used is measured anew.
"""

import hashlib
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mmspec.config import CONFIG_FILE
from mmspec.drafting import NGRAM, Drafting
from mmspec.errors import CheckpointError
from mmspec.estimates import FAR, LONGEST, Acceptance
from mmspec.jsonfile import Block, read_json
from mmspec.loaded import LoadedHead, LoadedModel
from mmspec.paths import typed_path
from mmspec.seam import Backend

ROWS = 16
"""The most rows of a target forward that are measured."""
FORMAT = 1
"""Of the file; another number is a file of another version of mmspec."""
PLAUSIBLE = 0.8
"""Of the seconds of one row, what more rows must take for a measurement to be believed."""
SLOWEST = 3600.0
"""Seconds of a round beyond which a file is taken for damaged."""
WEIGHTS = (".safetensors", ".bin")

Seconds = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured costs; empty where nothing has been measured."""

    target: Seconds = field(default_factory=dict)
    """Seconds of a target forward by its rows, 1 to ROWS."""
    draft: Seconds = field(default_factory=dict)
    """Seconds of one drafted token of a chain by the branches that draft it."""
    rounds: Mapping[str, Seconds] = field(default_factory=dict)
    """Seconds of whole rounds by the tokens they drafted, as chats saw them, by drafting."""

    def costs(self, drafting: Drafting) -> dict[int, float]:
        """c(k), the seconds of a round that drafts k <= LONGEST; empty unless c(0) is known.

        Put together from target and draft where both were measured, else what answers showed.
        """
        step = 0.0 if drafting == NGRAM else self.draft.get(len(drafting.branches))
        if step is None or 1 not in self.target:
            seen = self.rounds.get(drafting.word, {})
            plain = seen.get(0, math.inf)  # what cost less than that was seen in another moment
            return {k: each for k, each in seen.items() if k <= LONGEST and each >= plain}
        return self._together(step)

    def paces(self, draftings: Sequence[Drafting]) -> list[float] | None:
        """Tokens per plain round's time, at the best length and the acceptance presumed at first.

        None where no length is known of all.
        """
        costs = [self.costs(drafting) for drafting in draftings]
        known = {k for k in costs[0] if k and all(k in each for each in costs)}
        if not known:
            return None
        expected = Acceptance().expected()
        return [max(expected[k] * each[0] / each[k] for k in known) for each in costs]

    def after(self, drafting: Drafting, seen: Seconds) -> "Calibration":
        """The costs known once rounds of a drafting, plain ones among them, have shown theirs.

        This object where that is no news. Costs that are far from what was known, at the speed of
        plain rounds, replace all of it: others will have changed too.
        """
        known, word = self.costs(drafting), drafting.word
        if not any(seen) or 0 not in seen:
            return self
        at_speed = {k: each * seen[0] / known[0] for k, each in known.items()}
        both = seen.keys() & known.keys()
        if any(not at_speed[k] / FAR < seen[k] < at_speed[k] * FAR for k in both):
            return Calibration(rounds={word: seen})
        if seen.keys() <= known.keys():
            return self
        worth = {k: each for k, each in at_speed.items() if each < (1 + k) * seen[0]}
        return replace(self, rounds={**self.rounds, word: {**worth, **seen}})

    @property
    def is_plausible(self) -> bool:
        """Whether no forward over several rows took much less than one over a single row."""
        single = self.target.get(1, 0.0)
        return all(each > PLAUSIBLE * single for each in self.target.values())

    def _together(self, step: float) -> dict[int, float]:
        """c(k) where a drafted token takes `step` seconds."""
        pairs = ((rows - 1, each) for rows, each in self.target.items())
        return {k: each + k * step for k, each in pairs if k <= LONGEST}

    def as_dict(self) -> dict[str, Any]:
        """JSON-serializable; seconds by number."""
        rounds = {word: dict(seconds) for word, seconds in self.rounds.items()}
        return {"target": dict(self.target), "draft": dict(self.draft), "rounds": rounds}


@dataclass(frozen=True, slots=True)
class CalibrationFile:
    """Where the costs of one machine, backend and pair are kept."""

    path: Path
    key: Mapping[str, Any]
    """What they are the costs of; JSON-serializable."""

    def read(self) -> tuple[Calibration, str]:
        """What is kept, and a line where a file is there but cannot be used; both may be empty."""
        try:
            if not self.path.exists():
                return Calibration(), ""
            return self._parsed(Block(read_json(self.path), self.path)), ""
        except (CheckpointError, OSError) as error:
            return Calibration(), f"calibration not used ({error}): run `mmspec calibrate`"

    def write(self, calibration: Calibration) -> None:
        """Replace what is kept, at once or not at all; raises OSError."""
        told = {"format": FORMAT, "key": dict(self.key)} | calibration.as_dict()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(f".{os.getpid()}")
        try:
            part.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)

    def _parsed(self, block: Block) -> Calibration:
        block.only("format", [FORMAT], 0)
        if block.get("key") != self.key:
            raise CheckpointError(f"{self.path} is of another machine, backend or model")
        rounds = block.block("rounds")
        seen = {word: _seconds(rounds.block(word), 0) for word in rounds.values}
        target, draft = (_seconds(block.block(name), 1) for name in ("target", "draft"))
        return Calibration(target, draft, seen)


def calibration_file(
    backend: Backend, target: LoadedModel, drafts: LoadedModel | LoadedHead | None
) -> CalibrationFile:
    """The file of these models on this machine, named by a digest of all that costs depend on."""
    key = {
        "machine": f"{platform.machine()} {_processor()} x{os.cpu_count()}",
        "device": target.model.device,
        "dtype": target.model.dtype,
        "quantize": target.model.quantize,
        "backend": {"name": backend.name, "mmspec": version("mmspec")} | backend.describe(),
        "target": shape_digest(target.directory),
        "draft": shape_digest(drafts.directory) if drafts else None,
    }
    told = json.dumps(key, sort_keys=True)
    name = f"{hashlib.sha256(told.encode()).hexdigest()[:24]}.json"
    return CalibrationFile(cache_directory() / "calibration" / name, json.loads(told))


def cache_directory() -> Path:
    """Where mmspec keeps what it can do without: $MMSPEC_CACHE, by default ~/.cache/mmspec."""
    if own := os.environ.get("MMSPEC_CACHE"):
        return Path(own)
    return typed_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "mmspec"


def shape_digest(directory: Path) -> str:
    """Digest of a checkpoint's config and its weights' sizes: speed depends on no more of it."""
    told = hashlib.sha256((directory / CONFIG_FILE).read_bytes())
    for file in sorted(directory.iterdir()):
        if file.suffix in WEIGHTS:
            told.update(f"{file.name} {file.stat().st_size}\n".encode())
    return told.hexdigest()[:24]


def _seconds(block: Block, least: int) -> dict[int, float]:
    """Seconds by a number from `least` to ROWS; raises CheckpointError."""
    allowed = {str(number): number for number in range(least, ROWS + 1)}
    for number in block.values:
        if number not in allowed:
            raise block.error(number, f"absent: counts go from {least} to {ROWS}")
    seconds = {allowed[number]: block.number(number, 0.0) for number in block.values}
    for row, each in seconds.items():
        if each > SLOWEST:
            raise block.error(str(row), f"at most {SLOWEST:g} seconds")
    return seconds


def _processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
