"""Runs many damaged files of one subject, in processes that may hang or abort."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic, sleep

from support.damage.subjects import SUBJECTS

SECONDS = 2.0
"""Seconds of processor time within which a case must be over."""
MEGABYTES = 500
"""Memory that a case may take beyond what the process had."""
PATIENCE = 180.0
"""Seconds without a line after which a process hangs, also on a machine that is very busy."""


@dataclass(frozen=True)
class Case:
    """What came of one damaged file."""

    case: str
    outcome: str
    """refused or harmless; anything else is a fault."""
    message: str = ""
    file: str = ""
    seconds: float = 0.0
    megabytes: int = 0

    @property
    def is_sound(self) -> bool:
        """True if the file was refused by name or did no harm, in the time and memory allowed."""
        is_cheap = self.seconds <= SECONDS and self.megabytes <= MEGABYTES
        return self.outcome in ("refused", "harmless") and is_cheap


def prepare(folder: Path, name: str) -> None:
    """Write the good files of a subject, unless they are there."""
    source, make = folder / name / "source", SUBJECTS[name].make
    if make and not source.exists():
        source.mkdir(parents=True)
        make(source)


def run(
    folder: Path,
    names: Iterable[str],
    backend: str = "none",
    *,
    count: int,
    seed: int = 0,
    patience: float = PATIENCE,
) -> list[Case]:
    """Damage and use `count` files of the subjects in turn; a case that ends its process counts."""
    cases: list[Case] = []
    for name in names:
        prepare(folder, name)
    while len(cases) < count:
        command = [",".join(names), str(len(cases)), str(count - len(cases))]
        cases += _until_it_ends(folder, [backend, str(seed), *command], patience)
    return cases


def _until_it_ends(folder: Path, arguments: list[str], patience: float) -> list[Case]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "support.damage.process", str(folder), *arguments]
    with TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=errors)
        size, changed = 0, monotonic()
        while process.poll() is None and monotonic() - changed < patience:
            sleep(0.05)
            if os.fstat(out.fileno()).st_size > size:
                size, changed = os.fstat(out.fileno()).st_size, monotonic()
        process.kill()
        process.wait()
        lines, why = (stream.seek(0) or stream.read().splitlines() for stream in (out, errors))
    cases = [Case(**json.loads(line)) for line in lines if line.startswith("{")]
    last = f"{' '.join(arguments)} {lines[-1] if lines else ''}"
    why = f"{last} ended by {process.returncode}: {' '.join(why)[-800:]}"
    if not lines:
        raise RuntimeError(why)
    if lines[-1].startswith("start"):
        cases.append(Case(last, "hang or abort", why))
    return cases
