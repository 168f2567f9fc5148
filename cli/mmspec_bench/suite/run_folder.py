"""The folder of a run: its settings in `provenance.json`, which a resumed run must match."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from mmspec.chat.engine import Engine
from mmspec.chat.loaded_model import LoadedHead, LoadedModel
from mmspec.chat.options import Gamma, Options
from mmspec.checkpoints.config import CONFIG_FILE
from mmspec.checkpoints.loading_plan import has_safetensors, weight_files
from mmspec.decoding.sampling import Sampling
from mmspec.diagnostics.provenance import provenance
from mmspec.ground.errors import UsageError
from mmspec.ground.json_file import Block, read_json
from mmspec.ground.limits import Matches, Range
from mmspec.ground.output_files import make_directory, replace_text
from mmspec_bench.suite.rows import PROVENANCE, ROWS, Row, read_rows, rewrite

_SHA256 = re.compile(r"[0-9a-f]{64}")
"""Matches the name of a large file in the hub's cache: the SHA-256 of its content."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run: its samples, methods and decoding."""

    suite: str
    methods: tuple[str, ...]
    gamma: Gamma = 5
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    sampling_seed: int = 0
    max_new_tokens: int = 128
    exact: str = "auto"
    limit: int | None = None
    turns: int | None = None
    tasks: tuple[str, ...] = ()
    seed: int = 0
    shard: str = "1/1"
    captioner: str = "auto"
    captions: str = ""

    @property
    def options(self) -> Options:
        """Decoding options of every method; raises UsageError for one out of range."""
        return Options(
            gamma=self.gamma,
            sampling=Sampling(self.temperature, self.top_k, self.top_p),
            seed=self.sampling_seed,
            max_new_tokens=self.max_new_tokens,
            exact=self.exact,
        )


class _Model(TypedDict):
    name: str
    digest: str


class _Target(TypedDict):
    target: _Model


class _Skipped(TypedDict):
    sample: str
    reason: str


class _Provenance(TypedDict, total=False):
    """What `provenance.json` holds beside the settings, as far as it is read again."""

    suite: str
    limit: Annotated[int, Range(0, 10**9)] | None
    turns: Annotated[int, Range(0, 10**9)] | None
    tasks: list[str]
    seed: Annotated[int, Range(-(2**63), 2**63 - 1)]
    methods: list[str]
    shard: Annotated[str, Matches(r"[0-9]{1,4}/[0-9]{1,4}")]
    models: _Target
    image_size: Annotated[int, Range(0, 100_000)]
    backend: str
    device: str
    dtype: str
    processor: str
    platform: str
    threads: dict[str, str | None]
    versions: dict[str, str | None]
    command: list[str]
    skipped: list[_Skipped]
    resumed: list[dict[str, Any]]


FIXED = (
    *Settings.__dataclass_fields__,
    *("models", "backend", "device", "dtype", "platform", "processor", "threads"),
)
"""Entries of the provenance that must not change within a run."""


def description(settings: Settings, engines: Sequence[Engine]) -> dict[str, Any]:
    """The entries of `provenance.json` at the start of the run.

    engines: one for each draft, with the same target.
    """
    engine, vision = engines[0], engines[0].target.model.config.vision
    models = {"target": engine.target, "draft": engine.drafts}
    models |= {f"draft {n}": other.drafts for n, other in enumerate(engines[1:], start=2)}
    return provenance([engine.backend]) | {
        **asdict(settings),
        "models": {role: _model(loaded) for role, loaded in models.items()},
        "backend": engine.backend.name,
        "device": engine.target.model.device,
        "dtype": engine.target.model.dtype,
        "image_size": vision.image_size if vision else 0,
        "is_exact": engine.exact_rows(settings.exact) is not None,
        "skipped": [],
        "resumed": [],
    }


def _model(loaded: LoadedModel | LoadedHead | None) -> dict[str, Any] | None:
    if loaded is None:
        return None
    entry = {"name": loaded.name, "digest": loaded.directory and model_digest(loaded.directory)}
    if isinstance(loaded, LoadedModel) and loaded.model.quantize != "none":
        entry["quantize"] = loaded.model.quantize
    return entry


def model_digest(directory: Path) -> str:
    """SHA-256 over a checkpoint's config and weights, equal for equal files anywhere.

    Without safetensors, as of another package's drafter, over all files of the directory.
    """
    digest = hashlib.sha256()
    if has_safetensors(directory):
        files = [directory / CONFIG_FILE, *weight_files(directory)]
    else:
        files = [file for file in directory.iterdir() if file.is_file()]
    for file in sorted(files):
        digest.update(f"{file.name} {_file_digest(file)}\n".encode())
    return digest.hexdigest()


def _file_digest(file: Path) -> str:
    name = file.resolve().name
    if _SHA256.fullmatch(name):
        return name
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def open_folder(folder: Path, entries: dict[str, Any], *, resume: bool) -> list[Row]:
    """Open the folder of a run and return its rows; removes a torn last row.

    Raises UsageError for an existing run without `resume`, and with it for another run, naming the
    differences.
    """
    if not (folder / PROVENANCE).exists():
        if (folder / ROWS).exists():
            raise UsageError(f"{folder} has {ROWS} without {PROVENANCE}: choose another --out")
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--out {folder} is no folder: give one, or a name that is free")
        make_directory(folder)
        _write(folder, entries)
        return []
    if not resume:
        raise UsageError(
            f"{folder} holds a run: continue it with --resume, or choose another --out"
        )
    earlier = read_provenance(folder)
    _check_same(folder, earlier, entries)
    again = {name: entries[name] for name in ("command", "commit", "date", "versions")}
    update_provenance(folder, resumed=[*earlier["resumed"], again])
    rows = read_rows(folder / ROWS) if (folder / ROWS).exists() else []
    rewrite(folder / ROWS, rows)
    return rows


ADDED = {"captions": "", "exact": "off"}
"""Settings that older runs lack, with what those runs did."""


def _check_same(folder: Path, earlier: dict[str, Any], entries: dict[str, Any]) -> None:
    now = json.loads(json.dumps(entries))  # as it would be read: tuples as lists
    for name in FIXED:
        if earlier.get(name) != now[name]:
            raise UsageError(
                f"--resume: {folder} was run with {name} {_shown(earlier.get(name))}, and this is "
                f"{_shown(now[name])}: give what it was, or choose another --out"
            )


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else json.dumps(value)


def read_provenance(folder: Path) -> dict[str, Any]:
    """The content of `provenance.json` in a run's folder, with the settings that it lacks.

    Raises CheckpointError for another content.
    """
    block = Block(read_json(folder / PROVENANCE), folder / PROVENANCE)
    defaults: dict[str, Any] = {"limit": None, "turns": None, "skipped": [], "resumed": []}
    block.record(_Provenance, **defaults)
    block.read("models", dict[str, _Model | None], {})
    present = {name: value for name, value in block.values.items() if value is not None}
    return {**ADDED, **defaults, **present}


def update_provenance(folder: Path, **entries: Any) -> None:
    """Replace some entries of the provenance."""
    _write(folder, read_provenance(folder) | entries)


def record_skipped(folder: Path, sample: str, reason: str) -> None:
    """Record a broken sample, once even if the run is resumed."""
    skipped = read_provenance(folder)["skipped"]
    others = [entry for entry in skipped if entry["sample"] != sample]
    update_provenance(folder, skipped=[*others, {"sample": sample, "reason": reason}])


def _write(folder: Path, entries: dict[str, Any]) -> None:
    text = json.dumps(entries, indent=2, ensure_ascii=False)
    replace_text(folder / PROVENANCE, text + "\n")
