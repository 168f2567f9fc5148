"""Quantized copies of checkpoints, in the layout that mlx-vlm and mlx-lm write and read."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import mlx.core as mx

from mmspec.checkpoints.config import CONFIG_FILE, ModelConfig
from mmspec.checkpoints.loading_plan import (
    INDEX_FILE,
    WEIGHTS_FILE,
    TensorSource,
    plan,
    read_tensors,
)
from mmspec.checkpoints.manifest import (
    LM_HEAD,
    SHORT,
    TOWER,
    canonical,
    hub_name,
    is_buffer,
    manifest,
)
from mmspec.checkpoints.stored_config import stored_config
from mmspec.ground.errors import UsageError, choice
from mmspec.ground.json_file import read_json
from mmspec.ground.output_files import new_directory
from mmspec_mlx.device.weights import Files

SHARD_BYTES = 2 * 2**30
"""Number of bytes at which a shard is written to its file, which bounds memory use."""

BITS, GROUPS = (2, 4, 8), (32, 64, 128)
_COPY_SUFFIXES = (".json", ".jinja", ".model", ".txt")

NamedArrays = Iterator[tuple[str, mx.array]]


def quantize(source: Path, destination: Path, *, bits: int, group_size: int) -> None:
    """Quantize every matrix of the decoder and the projector; the vision tower stays float.

    There is nothing at `destination` before the copy is complete.

    bits: of BITS.  group_size: inputs that share a scale, of GROUPS; a matrix whose inputs are not
    a multiple stays float.  Raises UsageError for wrong options or a destination that is not
    empty, CheckpointError for an unreadable source, WriteError for a full disk.
    """
    for name, value, options in ("number of bits", bits, BITS), ("group size", group_size, GROUPS):
        if value not in options:
            raise choice(name, str(value), list(map(str, options)))
    config = stored_config(source)
    if config.quantization is not None:
        raise UsageError(f"{source} is already quantized ({config.quantization.bits} bits)")
    sources = plan(source, config)  # raises before anything is written if it would not load
    if destination.exists() and any(destination.iterdir()):
        raise UsageError(f"{destination} is not empty: name a new directory")
    packing = {"group_size": group_size, "bits": bits}
    with new_directory(destination) as partial:
        for file in source.iterdir():
            if file.suffix in _COPY_SUFFIXES and not file.name.endswith(".index.json"):
                shutil.copyfile(file, partial / file.name)
        _write(_tensors(source, config, sources, packing), partial)
        _write_config(source, partial, config, packing)


def _tensors(
    source: Path, config: ModelConfig, sources: Mapping[str, TensorSource], packing: dict[str, int]
) -> NamedArrays:
    """Yield every tensor of the source, including those that mmspec does not load.

    Norms that the files hold less one are written whole, as MLX expects beside its convolutions.
    """
    shapes, files, group = manifest(config), Files(), packing["group_size"]
    for entry in read_tensors(source).values():
        name = canonical(entry.name, config)
        if is_buffer(entry.name) or (name == LM_HEAD and name not in shapes):
            continue
        array, public_name, shape = files(entry), hub_name(name, config), shapes.get(name, ())
        if name in sources and sources[name].less_one:
            yield public_name, (array.astype(mx.float32) + 1).astype(array.dtype)
        elif name == config.family.convolution or name.endswith(SHORT):
            is_torch = array.shape == shape  # MLX has the inputs as the last axis
            yield public_name, mx.moveaxis(array, 1, -1) if is_torch else array
        elif len(shape) == 2 and shape[1] % group == 0 and not name.startswith(TOWER):
            parts = mx.quantize(array, group, packing["bits"])
            path = public_name.removesuffix("weight")
            yield from zip((public_name, f"{path}scales", f"{path}biases"), parts, strict=True)
        else:
            yield public_name, array


def _write(tensors: NamedArrays, destination: Path) -> None:
    """Write shards that are named as on the hub, with an index if there are several.

    A tensor is read when its shard is written.
    """
    shards: list[dict[str, mx.array]] = [{}]
    sizes = [0]
    for name, array in tensors:
        if sizes[-1] >= SHARD_BYTES:
            shards.append({})
            sizes.append(0)
        shards[-1][name] = array
        sizes[-1] += array.nbytes
    homes: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        homes |= dict.fromkeys(shard, file if len(shards) > 1 else WEIGHTS_FILE)
        for array in shard.values():
            mx.eval(array)
        with (destination / homes[next(iter(shard))]).open("wb") as stream:
            mx.save_safetensors(stream, shard, metadata={"format": "mlx"})
        shard.clear()
    if len(shards) > 1:
        index = {"metadata": {"total_size": sum(sizes)}, "weight_map": homes}
        _write_json(destination / INDEX_FILE, index)


def _write_config(
    source: Path, destination: Path, model: ModelConfig, packing: dict[str, int]
) -> None:
    config = read_json(source / CONFIG_FILE)
    if not model.text.tie_word_embeddings:
        for block in (config, config.get("text_config")):
            if isinstance(block, dict) and block.get("tie_word_embeddings"):
                block["tie_word_embeddings"] = False
    config["quantization"] = packing | {"mode": "affine"}
    _write_json(destination / CONFIG_FILE, config)


def _write_json(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
