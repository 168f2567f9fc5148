"""Everything measured once on hardware we may not have, in one report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from mmspec.bench.prompts import Prompt, default_prompts
from mmspec.bench.provenance import provenance
from mmspec.bench.speed import speed
from mmspec.check import EXIT_CODES, check
from mmspec.doctor import examine, memory_bytes
from mmspec.engine import Engine, load
from mmspec.errors import BackendError, HubError, MmspecError
from mmspec.footprint import weight_bytes
from mmspec.hub import pull, resolve
from mmspec.options import Options
from mmspec.parity import parity
from mmspec.registry import installed_backends, load_backend

MODEL, DRAFT = "llava-1.5-7b", "lvlm68m"
PROMPTS, TOKENS, REPEATS = 3, 64, 3
KEEP_PACKED = ("mlx",)
"""Backends that compute with quantized weights as they are; others unpack them."""
SHARE = 0.8
"""Of the memory; the rest is for the draft, caches, activations and the system."""
WORDS, GAMMAS = ("M", "T", "MT"), (2, 4, 6)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """A pair to try, and where it lies for each backend."""

    model: dict[str, Path]
    draft: dict[str, Path]
    options: Options
    progress: Progress

    def load(self, backend: str, model: Path | None = None, dtype: str = "auto") -> Engine:
        """Load the pair on one backend; raises NoRoom before where it would not fit."""
        where = model or self.model[backend]
        require_room(backend, where, dtype)
        return load(str(where), str(self.draft[backend]), backend=backend, dtype=dtype)


class NoRoom(MmspecError):
    """A model that this machine has not the memory for."""


def require_room(backend: str, model: Path, dtype: str) -> None:
    """Raise NoRoom where weights that lie in the machine's own memory exceed what it can give."""
    memory, device = memory_bytes(), load_backend(backend).describe()["devices"][0]
    if memory is None or device == "cuda":
        return
    dtype = "float32" if dtype == "auto" and device == "cpu" else dtype
    needed = weight_bytes(model, dtype, packed=backend in KEEP_PACKED)
    if needed > SHARE * memory:
        kind = "its own type" if dtype == "auto" else dtype
        raise NoRoom(
            f"{model.name}'s weights take {needed / 1e9:.1f} GB in {kind} on {backend}, and of "
            f"this machine's {memory / 1e9:.1f} GB at most {SHARE * memory / 1e9:.1f} are for them"
        )


def trial(model: str, draft: str, progress: Progress) -> dict[str, Any]:
    """Fetch a pair, then check, measure and compare every installed backend.

    Returns one JSON-serializable report, in which a stage that failed is its error.  Raises
    HubError where the pair is neither here nor to be had.
    """
    backends = installed_backends()
    if not backends:
        raise BackendError('no backend is installed: run pip install "mmspec[mlx]" on a Mac')
    found = Trial(
        {backend: fetched(model, backend, progress) for backend in backends},
        {backend: fetched(draft, backend, progress) for backend in backends},
        Options(max_new_tokens=TOKENS),
        progress,
    )
    return {
        "model": model,
        "draft": draft,
        "examination": examine().as_dict(),
        "provenance": provenance([load_backend(backend) for backend in backends]),
        "stages": _stages(found, backends),
    }


def fetched(name: str, backend: str, progress: Progress) -> Path:
    """Where a model lies, pulled first if need be."""
    try:
        return resolve(name, backend)
    except HubError:
        progress(f"pulling {name} for {backend}")
        return pull(name, backend)


def _stages(found: Trial, backends: Sequence[str]) -> dict[str, Any]:
    wanted: dict[str, Callable[[], dict[str, Any]]] = {}
    for backend in backends:
        wanted[f"check {backend}"] = partial(_check, found, backend)
        wanted[f"speed {backend}"] = partial(_speed, found, backend)
    if len(backends) > 1:
        wanted["parity"] = partial(_parity, found, backends)
    return {name: _attempt(found, name, stage) for name, stage in wanted.items()}


def passed(told: dict[str, Any]) -> bool:
    """Whether a stage of the report found nothing worse than a near-tie, or was skipped."""
    return told["ok"] and told["result"].get("exit_code", 0) in (0, EXIT_CODES["near-tie"])


def _attempt(found: Trial, name: str, stage: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    found.progress(name)
    started = perf_counter()
    told: dict[str, Any]
    try:
        told = {"ok": True, "result": stage()}
    except NoRoom as error:
        told = {"ok": True, "result": {}, "skipped": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever fails on unknown hardware is a finding
        told = {"ok": False, "error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    return told | {"seconds": perf_counter() - started}


def _check(found: Trial, backend: str) -> dict[str, Any]:
    engine = found.load(backend)
    return check(engine, _prompts(engine), found.options).as_dict()


def _speed(found: Trial, backend: str) -> dict[str, Any]:
    engine = found.load(backend)
    report = speed(
        engine,
        _prompts(engine),
        found.options,
        words=_words(engine),
        gammas=GAMMAS,
        repeats=REPEATS,
        progress=found.progress,
    )
    return report.as_dict()


def _parity(found: Trial, backends: Sequence[str]) -> dict[str, Any]:
    """All backends on the last one's files, in one type."""
    first, last = backends[0], backends[-1]
    dtype = found.load(first).target.model.dtype
    for backend in backends:
        require_room(backend, found.model[last], dtype)
    report = parity(
        lambda backend, directory: found.load(backend, directory, dtype),
        found.model[last],
        backends,
        _prompts,
        found.options,
    )
    return report.as_dict()


def _prompts(engine: Engine) -> list[Prompt]:
    return default_prompts(engine, PROMPTS)


def _words(engine: Engine) -> Sequence[str]:
    sees = engine.draft is not None and engine.draft.model.config.vision is not None
    return WORDS if sees and engine.target.features else ("T",)
