"""Writes checkpoints of random weights in the format of real ones."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mmspec.checkpoints.config import CONFIG_FILE, ModelConfig, read_config
from mmspec.checkpoints.head_config import HeadConfig
from mmspec.checkpoints.head_manifest import head_manifest
from mmspec.checkpoints.manifest import hub_name, manifest
from mmspec.families.tensors import Shape
from mmspec.ground.errors import UsageError, choice
from mmspec.ground.json_file import read_json
from mmspec.ground.output_files import new_directory
from mmspec_bench import Progress
from mmspec_bench.random_weights.byte_tokenizer import write_tokenizer
from mmspec_bench.random_weights.shapes import SHAPES, Config
from mmspec_bench.random_weights.weights import RandomTensors, total_bytes, write_weights


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A target, a draft model and an MSD head for the target, of random weights in bfloat16."""

    name: str
    target: Path
    draft: Path
    head: Path
    bytes: int
    """Number of bytes in the weights of all three models."""


@dataclass(frozen=True, slots=True)
class Part:
    """The content of a checkpoint: config.json, tensors and, for a whole model, its sizes."""

    config: Config
    tensors: Mapping[str, Shape]
    model: ModelConfig | None


def write_checkpoints(name: str, directory: Path, progress: Progress) -> Checkpoints:
    """Write the checkpoints `name` below `directory`, except existing ones.

    Raises UsageError for an unknown name, a folder with other content and a full disk.
    """
    if name not in SHAPES:
        raise choice("synthetic checkpoint", name, SHAPES)
    shape, root = SHAPES[name], directory / name
    target = _model(shape.target)
    parts = {"target": target, "draft": _model(shape.draft), "msd": _head(target)}
    missing = {label: part for label, part in parts.items() if not _is_there(root / label, part)}
    _require_space(directory, sum(total_bytes(part.tensors) for part in missing.values()))
    random = RandomTensors()
    for label, part in missing.items():
        size = total_bytes(part.tensors) / 1e9
        progress(f"writing {size:.1f} GB of random weights to {root / label}")
        _write(root / label, part, random)
    total = sum(total_bytes(part.tensors) for part in parts.values())
    return Checkpoints(name, root / "target", root / "draft", root / "msd", total)


def _model(config: Config) -> Part:
    with TemporaryDirectory() as folder:
        parsed = read_config(_configured(Path(folder), config))
    tensors = {hub_name(name, parsed): shape for name, shape in manifest(parsed).items()}
    return Part(config, tensors, parsed)


def _head(target: Part) -> Part:
    """An MSD head whose layer has the sizes of the target's layers."""
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
    there = next(folder for folder in (directory, *directory.absolute().parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise UsageError(
            f"{directory} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are to be "
            "written: give another --synthetic-dir"
        )


def _write(directory: Path, part: Part, random: RandomTensors) -> None:
    with new_directory(directory) as partial:
        write_weights(_configured(partial, part.config), part.tensors, random)
        if part.model and part.model.vision and part.model.image_token_id:
            write_tokenizer(partial, part.model.image_token_id)
            _write_preprocessor(partial, part.model.vision.image_size)


def _write_preprocessor(directory: Path, side: int) -> None:
    sizes = {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}}
    text = json.dumps({"image_processor_type": "CLIPImageProcessor"} | sizes)
    (directory / "preprocessor_config.json").write_text(text, encoding="utf-8")


def _configured(directory: Path, config: Config) -> Path:
    (directory / CONFIG_FILE).write_text(json.dumps(config, indent=2), encoding="utf-8")
    return directory
