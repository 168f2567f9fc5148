"""The folder of a run: its settings in `provenance.json`, which a resumed run must match."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

from mmspec.chat.calibration import content_digest, shape_digest, threads_of
from mmspec.chat.engine import Engine
from mmspec.chat.loaded_model import LoadedHead, LoadedModel
from mmspec.chat.options import Gamma, Options
from mmspec.decoding.sampling import Sampling
from mmspec.diagnostics.provenance import provenance
from mmspec.ground.errors import UsageError
from mmspec.ground.json_file import Block
from mmspec.ground.output_files import make_directory, replace_text
from mmspec.ground.settings import Settings, option
from mmspec_bench.suite.rows import PROVENANCE, ROWS, AnswerRow, read_rows
from mmspec_bench.suite.sources import NAMES
from mmspec_terminal.options import LONGEST


@dataclass(frozen=True)
class SuiteSettings(Settings):
    """Settings of a run: its samples, methods and decoding; those with a help are options."""

    suite: str = option(
        "offline", f"Several with commas. Names: {', '.join(NAMES)}.", metavar="NAME|NAME=DIR|PATH"
    )
    methods: tuple[str, ...] = ()
    gamma: Gamma = 5
    temperature: float = option(0.0, "0 takes the likeliest.", least=0)
    top_k: int = option(0, "0 keeps all.")
    top_p: float = option(1.0, "Sampled probability.", least=0, most=1)
    sampling_seed: int = option(0, "Seed of sampled answers.")
    max_new_tokens: int = option(128, LONGEST, least=1)
    exact: str = "auto"
    quantize: str = "none"
    max_image_tokens: int | None = None
    limit: int | None = option(None, "Samples of each task. Default: 100, as published.", least=1)
    tasks: tuple[str, ...] = ()
    seed: int = option(0, "First seed of synthetic samples.")
    shard: str = option("1/1", "Every N-th sample from the I-th on.", metavar="I/N")
    captioner: str = "auto"
    captions: str = ""
    draft_text: tuple[str, ...] = ()
    target_answers: str | None = option(None, "Answers of --model, in place of it.", metavar="FILE")
    memory: bool | None = None
    """Whether lookup finds places in the answers to earlier samples too."""

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
    digest: str | None


class _Provenance(TypedDict):
    """The entries of `provenance.json` that are read again; no program needs the others."""

    methods: list[str]
    models: dict[str, _Model | None]
    backend: str
    device: str
    dtype: str
    quantize: str
    skipped: list[dict[str, str]]
    resumed: list[dict[str, Any]]


SHARED = (
    *sorted(SuiteSettings.__dataclass_fields__.keys() - {"shard", "exact"}),
    *("models", "backend", "device", "dtype", "is_exact"),
)
"""Entries of the provenance in which the shards of a run agree; their machines may differ.

`--exact auto` may find another thing later: what it found counts.
"""
RESUME_ENTRIES = (*SHARED, "shard", "platform", "processor", "cpu_threads")
"""Entries that must not change when a run goes on."""


def description(settings: SuiteSettings, engines: Sequence[Engine]) -> dict[str, Any]:
    """The entries of `provenance.json` at the start; engines: of one target, one for each draft."""
    engine = engines[0]
    models = {"target": engine.target, "draft": engine.drafts}
    models |= {f"draft {n}": other.drafts for n, other in enumerate(engines[1:], start=2)}
    return provenance([engine.backend]) | {
        **asdict(settings),
        "models": {role: _model(model) for role, model in models.items()},
        "backend": engine.backend.name,
        "device": engine.target.model.device,
        "dtype": engine.target.model.dtype,
        "is_exact": engine.exact_rows(settings.exact) is not None,
        "cpu_threads": threads_of(engine.backend.describe()),
        "problem": "",
        "skipped": [],
        "resumed": [],
    }


def _model(model: LoadedModel | LoadedHead | None) -> dict[str, Any] | None:
    if model is None:
        return None
    digest = model.directory and shape_digest(model.directory) + content_digest(model.directory)
    return {"name": model.name, "digest": digest}


def open_folder(folder: Path, entries: dict[str, Any], *, resume: bool) -> list[AnswerRow]:
    """Open the folder of a run and return its rows.

    Raises UsageError for a run there without `resume`; with it for another, naming a difference.
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
        remedy = "continue it with --resume, or choose another --out"
        raise UsageError(f"{folder} holds a run: {remedy}")
    earlier = read_provenance(folder)
    now = json.loads(json.dumps(entries))  # as it would be read: tuples as lists
    for name in RESUME_ENTRIES:
        if earlier.get(name) != now[name]:
            raise UsageError(
                f"--resume: {folder} was run with {name} {_text(earlier.get(name))}, and this is "
                f"{_text(now[name])}: give what it was, or choose another --out"
            )
    entry = {name: entries[name] for name in ("command", "commit", "date", "versions")}
    update_provenance(folder, resumed=[*earlier["resumed"], entry])
    return read_rows(folder / ROWS) if (folder / ROWS).exists() else []


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else json.dumps(value)


def read_provenance(folder: Path) -> dict[str, Any]:
    """The content of a run's `provenance.json` without null entries; raises CheckpointError."""
    block = Block.of(folder / PROVENANCE)
    lists: dict[str, Any] = {"skipped": [], "resumed": []}
    block.record(_Provenance, **lists)
    return lists | {name: value for name, value in block.values.items() if value is not None}


def update_provenance(folder: Path, **entries: Any) -> None:
    """Replace some entries of the provenance."""
    _write(folder, read_provenance(folder) | entries)


def record_omission(folder: Path, sample: str, reason: str) -> None:
    """Record a broken sample, once even if the run is resumed."""
    earlier = read_provenance(folder)["skipped"]
    others = [entry for entry in earlier if entry.get("sample") != sample]
    update_provenance(folder, skipped=[*others, {"sample": sample, "reason": reason}])


def _write(folder: Path, entries: dict[str, Any]) -> None:
    text = json.dumps(entries, indent=2, ensure_ascii=False)
    replace_text(folder / PROVENANCE, text + "\n")
