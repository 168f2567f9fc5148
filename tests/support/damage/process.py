"""What a process does that damages files and uses them; memory is read from /proc."""

import os
import resource
import shutil
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from random import Random

from mmspec.ground.errors import MmspecError
from support.damage import mutations
from support.damage.subjects import SUBJECTS, Subject
from support.opening_process import memory

SECONDS = 2.0
"""Seconds of processor time within which a case must be over."""
MEGABYTES = 500
"""Memory that a case may take beyond what the process had."""
ADDRESSES = 4 * 2**30
"""Bytes of address space that a case may ask for; a library that asks for more fails or aborts."""


def begin(folder: Path, names: list[str], backend: str) -> None:
    """Use the good files of subjects once, which loads what is loaded once, and limit memory."""
    warnings.simplefilter("ignore")
    os.chdir(folder)
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in names:
        files = [folder / name / "source" / file for file in SUBJECTS[name].files]
        for file in {(file.parent, file.suffix): file for file in files}.values():
            SUBJECTS[name].use(file, backend)
    used = memory("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESSES, used + ADDRESSES))


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


def outcome(folder: Path, name: str, seed: str, backend: str) -> Case:
    """Damage one file of a subject and use it."""
    subject, draws, copy = SUBJECTS[name], Random(seed), folder / name / f"case {os.getpid()}"
    shutil.copytree(folder / name / "source", copy)
    try:
        file = copy / draws.choice(subject.files)
        damage(file, draws)
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak of memory
        before, started = memory("VmRSS"), time.process_time()
        found = _used(subject, file, backend)
        seconds, taken = time.process_time() - started, memory("VmHWM") - before
        return Case(seed, *found, file.name, round(seconds, 2), taken >> 20)
    finally:
        shutil.rmtree(copy)


def damage(file: Path, draws: Random) -> None:
    """Damage one file."""
    if draws.random() < 0.05:
        mutations.put_impostor(file, draws)
        return
    content, own = file.read_bytes(), draws.random() < 0.7
    if file.suffix == ".json" and own:
        content = mutations.damage_json(content, draws)
    elif file.suffix == ".safetensors" and own:
        content = mutations.damage_safetensors(content, draws)
    else:
        content = mutations.damage_bytes(content, draws)
    file.write_bytes(content)


def _used(subject: Subject, file: Path, backend: str) -> tuple[str, str]:
    """What came of the use of a file, and a message."""
    try:
        subject.use(file, backend)
    except MmspecError as error:
        message = str(error)
        named = any(part in message for part in (file.name, file.parent.name))
        is_line = "\n" not in message and message.encode(errors="ignore").decode() == message
        return "refused" if named and is_line else "unnamed", message[:500]
    except BaseException:  # noqa: BLE001 - whatever a library raises is a fault
        return "traceback", traceback.format_exc()[-1500:]
    return "harmless", ""
