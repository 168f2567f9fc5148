"""The report of `doctor --full`: check, speed and parity of a pair on every installed backend."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from mmspec.chat.engine import Engine, load
from mmspec.chat.options import Options
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.hub import pull, resolve
from mmspec.diagnostics.check import EXIT_CODES, check
from mmspec.diagnostics.doctor import examine, memory_bytes
from mmspec.diagnostics.parity import parity
from mmspec.diagnostics.provenance import provenance
from mmspec.errors import BackendError, HubError, MmspecError
from mmspec.plugins import installed_backends, load_backend
from mmspec_bench import Progress
from mmspec_bench.measure.costs import draft_sees
from mmspec_bench.measure.speed import speed
from mmspec_bench.prompts import prompts_for
from mmspec_bench.weight_memory import weight_bytes

MODEL, DRAFT = "llava-1.5-7b", "lvlm68m"
PROMPTS, REPEATS = 3, 3
OPTIONS = Options(gamma=5, max_new_tokens=64)
DRAFTINGS, GAMMAS = ("M", "T", "MT"), (2, 4, 6)
PACKED_BACKENDS = ("mlx",)
"""Backends that compute with quantized weights directly; others unpack them."""
MEMORY_SHARE = 0.8
"""Share of the machine's memory for weights; the rest is for caches, activations and the system."""


class NoRoom(MmspecError):
    """Raised if the weights would exceed the machine's memory."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The directories of a target and a draft for each backend."""

    model: dict[str, Path]
    draft: dict[str, Path]

    def load(self, backend: str, model: Path | None = None, dtype: str = "auto") -> Engine:
        """Load the pair on one backend; raises NoRoom before that if memory is too small."""
        directory = model or self.model[backend]
        require_room(backend, directory, dtype)
        return load(str(directory), str(self.draft[backend]), backend=backend, dtype=dtype)


def require_room(backend: str, model: Path, dtype: str) -> None:
    """Raise NoRoom if the weights exceed MEMORY_SHARE of the machine's memory; skips CUDA."""
    memory, device = memory_bytes(), load_backend(backend).describe()["devices"][0]
    if memory is None or device == "cuda":
        return
    dtype = "float32" if dtype == "auto" and device == "cpu" else dtype
    needed = weight_bytes(model, dtype, packed=backend in PACKED_BACKENDS)
    room = MEMORY_SHARE * memory
    if needed > room:
        kind = "its own type" if dtype == "auto" else dtype
        raise NoRoom(
            f"{model.name}'s weights take {needed / 1e9:.1f} GB in {kind} on {backend}; of this "
            f"machine's {memory / 1e9:.1f} GB at most {room / 1e9:.1f} are for them"
        )


def full_report(model: str, draft: str, progress: Progress) -> dict[str, Any]:
    """Fetch a pair, then check, measure and compare it on every installed backend.

    Returns a JSON-serializable report with the command's `exit_code`; the entry of a failed stage
    is its error.  Raises HubError if the pair is not on this machine and cannot be fetched.
    """
    backends = installed_backends()
    if not backends:
        raise BackendError('no backend is installed: run pip install "mmspec[mlx]" on a Mac')
    models, drafts = (
        {backend: _fetched(name, backend, progress) for backend in backends}
        for name in (model, draft)
    )
    pair = Pair(models, drafts)
    stages: dict[str, dict[str, Any]] = {}

    def run(name: str, stage: Callable[[], dict[str, Any]]) -> None:
        progress(name)
        stages[name] = _attempt(stage)

    for backend in backends:
        run(f"check {backend}", partial(_check, pair, backend))
        run(f"speed {backend}", partial(_speed, pair, backend, progress))
    if len(backends) > 1:
        run("parity", partial(_parity, pair, backends))
    return {
        "model": model,
        "draft": draft,
        "examination": examine(),
        "provenance": provenance([load_backend(backend) for backend in backends]),
        "stages": stages,
        "exit_code": int(not all(passed(stage) for stage in stages.values())),
    }


def _fetched(name: str, backend: str, progress: Progress) -> Path:
    try:
        return resolve(name, backend)
    except HubError:
        progress(f"pulling {name} for {backend}")
        return pull(name, backend)


def passed(stage: dict[str, Any]) -> bool:
    """True if a stage found nothing worse than a near-tie, or was skipped."""
    return stage["ok"] and stage["result"].get("exit_code", 0) in (0, EXIT_CODES["near-tie"])


def _attempt(stage: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    started = perf_counter()
    outcome: dict[str, Any]
    try:
        outcome = {"ok": True, "result": stage()}
    except NoRoom as error:
        outcome = {"ok": True, "result": {}, "skipped": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever fails on unknown hardware is a finding
        outcome = {"ok": False, "error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    return outcome | {"seconds": perf_counter() - started}


def _check(pair: Pair, backend: str) -> dict[str, Any]:
    engine = pair.load(backend)
    return check(engine, prompts_for(engine.target.model.config, PROMPTS), OPTIONS).as_dict()


def _speed(pair: Pair, backend: str, progress: Progress) -> dict[str, Any]:
    engine = pair.load(backend)
    report = speed(
        engine,
        prompts_for(engine.target.model.config, PROMPTS),
        OPTIONS,
        draftings=DRAFTINGS if draft_sees(engine) and engine.target.features else ("T",),
        gammas=GAMMAS,
        repeats=REPEATS,
        progress=progress,
    )
    return report.as_dict()


def _parity(pair: Pair, backends: Sequence[str]) -> dict[str, Any]:
    """Compare all backends on the last one's files, in the dtype that the first one chooses."""
    directory = pair.model[backends[-1]]
    dtype = pair.load(backends[0]).target.model.dtype
    report = parity(
        lambda backend, model: pair.load(backend, model, dtype),
        directory,
        backends,
        prompts_for(read_config(directory), PROMPTS),
        OPTIONS,
    )
    return report.as_dict()
