"""What a run was, beside its rows: `provenance.json`, which a resumed run must agree with."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmspec.bench.provenance import provenance
from mmspec.bench.suite.rows import PROVENANCE, ROWS, Row, read_rows, rewrite
from mmspec.checkpoint import weight_files
from mmspec.config import CONFIG_FILE
from mmspec.engine import Engine
from mmspec.errors import UsageError
from mmspec.jsonfile import read_json
from mmspec.loaded import LoadedHead, LoadedModel

_CONTENT_NAMED = re.compile(r"[0-9a-f]{64}")
"""How the hub's cache names a large file: by its SHA-256."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked, how and of what share of the samples."""

    suite: str
    methods: tuple[str, ...]
    gamma: int = 5
    max_new_tokens: int = 128
    limit: int | None = None
    turns: int | None = None
    tasks: tuple[str, ...] = ()
    seed: int = 0
    shard: str = "1/1"
    captioner: str = "auto"


def described(settings: Settings, engine: Engine) -> dict[str, Any]:
    """Everything but the costs that `provenance.json` holds."""
    models = {"target": engine.target, "draft": engine.drafts}
    return provenance([engine.backend]) | {
        **asdict(settings),
        "models": {role: _model(loaded) for role, loaded in models.items()},
        "backend": engine.backend.name,
        "device": engine.target.model.device,
        "dtype": engine.target.model.dtype,
        "costs": [],
        "skipped": [],
        "resumed": [],
    }


FIXED = (
    *Settings.__dataclass_fields__,
    *("models", "backend", "device", "dtype", "platform", "processor", "threads"),
)
"""What may not change within a run."""


def _model(loaded: LoadedModel | LoadedHead | None) -> dict[str, Any] | None:
    if loaded is None:
        return None
    told = {"name": loaded.name, "digest": model_digest(loaded.directory)}
    if isinstance(loaded, LoadedModel) and loaded.model.quantize != "none":
        told["quantize"] = loaded.model.quantize
    return told


def model_digest(directory: Path) -> str:
    """SHA-256 over a checkpoint's config and weights: the same files, the same digest anywhere."""
    whole = hashlib.sha256()
    for file in sorted([directory / CONFIG_FILE, *weight_files(directory)]):
        whole.update(f"{file.name} {_file_digest(file)}\n".encode())
    return whole.hexdigest()


def _file_digest(file: Path) -> str:
    name = file.resolve().name
    if _CONTENT_NAMED.fullmatch(name):
        return name
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def begin(out: Path, told: dict[str, Any], *, resume: bool) -> list[Row]:
    """Open a run's folder and return the rows that are there already, the torn last one removed.

    Raises UsageError where a run is there and `resume` was not asked for, or it was another run:
    naming what differs.
    """
    file = out / PROVENANCE
    if not file.exists():
        if (out / ROWS).exists():
            raise UsageError(f"{out} has {ROWS} without {PROVENANCE}: choose another --out")
        if out.exists() and not out.is_dir():
            raise UsageError(f"--out {out} is no folder: give one, or a name that is free")
        out.mkdir(parents=True, exist_ok=True)
        write(out, told)
        return []
    if not resume:
        raise UsageError(f"{out} holds a run: go on with it by --resume, or choose another --out")
    earlier = read_json(file)
    _check_same(out, earlier, told)
    again = {name: told[name] for name in ("command", "commit", "date", "versions")}
    write(out, earlier | {"resumed": [*earlier["resumed"], again]})
    rows = read_rows(out / ROWS) if (out / ROWS).exists() else []
    rewrite(out / ROWS, rows)
    return rows


def _check_same(out: Path, earlier: dict[str, Any], told: dict[str, Any]) -> None:
    for name in FIXED:
        # Through JSON, so that what was read and what would be written compare alike.
        was, now = (json.loads(json.dumps(each.get(name))) for each in (earlier, told))
        if was != now:
            raise UsageError(
                f"--resume: {out} was run with {name} {_shown(was)}, and this is {_shown(now)}: "
                "give what it was, or choose another --out"
            )


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else json.dumps(value)


def write(out: Path, told: dict[str, Any]) -> None:
    """Write the provenance; a file that is there stays until the new one is whole."""
    beside = out / f"{PROVENANCE}.new"
    beside.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(out / PROVENANCE)


def amend(out: Path, **changes: Any) -> None:
    """Change some entries of the provenance."""
    write(out, read_json(out / PROVENANCE) | changes)


def skip(out: Path, name: str, reason: str) -> None:
    """Record a broken sample, once however often the run is resumed."""
    skipped: Sequence[dict[str, str]] = read_json(out / PROVENANCE)["skipped"]
    others = [each for each in skipped if each["sample"] != name]
    amend(out, skipped=[*others, {"sample": name, "reason": reason}])
