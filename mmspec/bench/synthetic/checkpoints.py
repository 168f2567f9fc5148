"""Checkpoints of random weights that the loading code takes for real ones."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mmspec.bench.synthetic.noise import Noise
from mmspec.bench.synthetic.shapes import SHAPES, Config
from mmspec.bench.synthetic.tokens import write_tokenizer
from mmspec.bench.synthetic.weights import total_bytes, write_weights
from mmspec.config import CONFIG_FILE, ModelConfig, read_config
from mmspec.errors import UsageError, choice
from mmspec.heads.config import HeadConfig
from mmspec.heads.manifest import head_manifest
from mmspec.jsonfile import read_json
from mmspec.manifest import Shape, hub_name, manifest

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Kit:
    """A target, a draft model and an MSD head for the target, of random weights in bfloat16."""

    name: str
    target: Path
    draft: Path
    head: Path
    bytes: int
    """Of the weights of all three."""


@dataclass(frozen=True, slots=True)
class Part:
    """A checkpoint to be: its config.json, its tensors and, of a whole model, its sizes."""

    config: Config
    tensors: Mapping[str, Shape]
    model: ModelConfig | None


def write_kit(name: str, directory: Path, progress: Progress) -> Kit:
    """Write the checkpoints called `name` below `directory`; what is there already is kept.

    Raises UsageError for an unknown name, a folder that holds something else and a full disk.
    """
    if name not in SHAPES:
        raise choice("synthetic checkpoint", name, SHAPES)
    shape, root = SHAPES[name], directory / name
    target = _model(shape.target)
    parts = {"target": target, "draft": _model(shape.draft), "msd": _head(target)}
    missing = {label: part for label, part in parts.items() if not _is_there(root / label, part)}
    _require_space(directory, sum(total_bytes(part.tensors) for part in missing.values()))
    noise = Noise() if missing else None
    for label, part in missing.items():
        size = total_bytes(part.tensors) / 1e9
        progress(f"writing {size:.1f} GB of random weights to {root / label}")
        _write(root / label, part, noise)
    total = sum(total_bytes(part.tensors) for part in parts.values())
    return Kit(name, root / "target", root / "draft", root / "msd", total)


def _model(config: Config) -> Part:
    with TemporaryDirectory() as folder:
        parsed = read_config(_configured(Path(folder), config))
    tensors = {hub_name(name, parsed): shape for name, shape in manifest(parsed).items()}
    return Part(config, tensors, parsed)


def _head(target: Part) -> Part:
    """An MSD head for a target: one of its layers."""
    assert target.model
    text = target.model.text
    layer = replace(text, num_hidden_layers=1)
    config = HeadConfig("msd", text.hidden_size, text.vocab_size, layer=layer)
    return Part(config.described(), head_manifest(config), None)


def _is_there(directory: Path, part: Part) -> bool:
    if not directory.exists():
        return False
    file = directory / CONFIG_FILE
    if file.is_file() and read_json(file) == part.config:
        return True
    raise UsageError(f"{directory} holds something else: remove it, or give --synthetic-dir")


def _require_space(directory: Path, needed: int) -> None:
    there = next(each for each in (directory, *directory.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise UsageError(
            f"{directory} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are to be "
            "written: give another --synthetic-dir"
        )


def _write(directory: Path, part: Part, noise: Noise | None) -> None:
    """Write beside the final place and move at the end, so that what is there is whole."""
    assert noise
    draft = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    write_weights(_configured(draft, part.config), part.tensors, noise)
    if part.model and part.model.vision and part.model.image_token_id:
        write_tokenizer(draft, part.model.image_token_id)
        _write_preprocessor(draft, part.model.vision.image_size)
    draft.rename(directory)


def _write_preprocessor(directory: Path, side: int) -> None:
    sizes = {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}}
    text = json.dumps({"image_processor_type": "CLIPImageProcessor"} | sizes)
    (directory / "preprocessor_config.json").write_text(text, encoding="utf-8")


def _configured(directory: Path, config: Config) -> Path:
    (directory / CONFIG_FILE).write_text(json.dumps(config, indent=2), encoding="utf-8")
    return directory
