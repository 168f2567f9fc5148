"""Runs many damaged files of one subject, in processes that may hang or abort."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        cases, errors = [], _Lines(process.stderr)
        lines, started = _Lines(process.stdout), ""
        while (line := lines.next(patience)) is not None:
            if line.startswith("start "):
                started = line.strip()
            elif line.startswith("{"):
                cases.append(Case(**json.loads(line)))
                started = ""
        process.kill()
    if started or not cases:
        why = f"ended by {process.returncode}: {''.join(errors.all())[-800:]}"
        case = f"{' '.join(arguments)} {started}"
        cases.append(Case(case, "hang or abort", why))
        if not started:
            raise RuntimeError(f"{case}: {why}")
    return cases


class _Lines:
    """The lines of a pipe, read by a thread of their own."""

    def __init__(self, pipe: Any) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def _read(self, pipe: Any) -> None:
        for line in pipe:
            self._lines.put(line)
        self._lines.put(None)

    def next(self, seconds: float) -> str | None:
        """The next line; None at the end, or if none comes in time."""
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def all(self) -> list[str]:
        """The lines up to the end."""
        return list(iter(lambda: self.next(5), None))
