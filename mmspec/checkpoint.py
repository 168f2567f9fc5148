"""Which bytes of which file make up each tensor of a model, decided before any weight is read.

`plan` is strict: a missing, unexpected or misshapen tensor is an error that names it. It reads
safetensors headers only; pickled weights are never opened.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mmspec.config import ModelConfig, Quantization
from mmspec.errors import CheckpointError
from mmspec.jsonfile import Block, read_json
from mmspec.manifest import PATCHES, Shape, canonical, is_buffer, manifest, optional
from mmspec.tensorfile import Stored, read_header

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

_FLOATS = ("F32", "F16", "BF16")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True)
class Packing:
    """The rest of a quantized weight: weight = scales · integers + biases, group by group.

    The weight is U32 (out, in · bits / 32), least significant bits first; `scales` and `biases`
    are (out, in / group_size).
    """

    scales: Stored
    biases: Stored
    bits: int
    group_size: int


@dataclass(frozen=True)
class Source:
    """Where one tensor of the model lies.

    `shape` is the tensor's own, in PyTorch's order. `layout` "mlx" says that a convolution is
    stored as (out, height, width, in). A quantized weight has a `packing`.
    """

    stored: Stored
    shape: Shape
    layout: Literal["torch", "mlx"] = "torch"
    packing: Packing | None = None


def plan(directory: Path, config: ModelConfig) -> dict[str, Source]:
    """Return the source of every tensor that the model loads, by canonical name.

    Raises CheckpointError for files that are missing, malformed or pickled, and for tensors that
    are missing, unexpected or misshapen.
    """
    return plan_tensors(read_tensors(directory), config, directory)


def plan_tensors(
    tensors: Mapping[str, Stored], config: ModelConfig, directory: Path
) -> dict[str, Source]:
    """Plan from headers already read; `directory` only names the checkpoint in errors."""
    found = _by_canonical_name(tensors, directory)
    return matched(found, manifest(config), optional(config), directory, config.quantization)


def matched(
    found: Mapping[str, Stored],
    needed: Mapping[str, Shape],
    spare: Mapping[str, Shape],
    directory: Path,
    quantization: Quantization | None = None,
) -> dict[str, Source]:
    """Return the source of every needed tensor; spare ones are held to their shapes alone.

    Raises CheckpointError for those that are missing, unexpected or misshapen.
    """
    sources: dict[str, Source] = {}
    problems: list[str] = []
    known = {**needed, **spare}
    for name, shape in known.items():
        if name not in found:
            problems += [f"{name} {list(shape)} is missing"] if name in needed else []
            continue
        try:
            sources[name] = _source(name, shape, found, quantization)
        except _Misfit as misfit:
            problems.append(str(misfit))
    problems += _unexpected(found, sources, known)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise CheckpointError(f"{directory}: {problems[0]}{more}")
    return {name: sources[name] for name in needed}


def read_tensors(directory: Path) -> dict[str, Stored]:
    """Return every tensor of the checkpoint in `directory` by its stored name."""
    tensors = _merged(weight_files(directory))
    for name, shard in _homes(directory).items():
        if name not in tensors:
            raise CheckpointError(f"{directory}: {name} is missing from {shard}")
    return tensors


def has_safetensors(directory: Path) -> bool:
    """Whether there are weights in the one format that needs no unpickling."""
    return any(directory.glob("*.safetensors"))


def weight_files(directory: Path) -> list[Path]:
    """Return the shards that the index names, else `model.safetensors`, else all safetensors.

    Raises CheckpointError where one of them, or all, are missing.
    """
    shards = sorted(set(_homes(directory).values()))
    if shards:
        return [directory / shard for shard in shards]
    single = directory / WEIGHTS_FILE
    files = [single] if single.exists() else sorted(directory.glob("*.safetensors"))
    if not files:
        raise _no_weights(directory)
    return files


def _homes(directory: Path) -> dict[str, str]:
    """Return the shard of every tensor; empty where there is no index."""
    index = directory / INDEX_FILE
    if not index.exists():
        return {}
    homes = Block(read_json(index), index).block("weight_map").values
    for name, shard in homes.items():
        if not isinstance(shard, str) or shard in ("", "..") or Path(shard).name != shard:
            raise CheckpointError(f"{index}: {name} must lie in a file beside it, not {shard!r}")
        if not (directory / shard).exists():
            raise CheckpointError(
                f"{directory}: the shard {shard} is missing, but {INDEX_FILE} names it"
            )
    return homes


def _merged(files: list[Path]) -> dict[str, Stored]:
    tensors: dict[str, Stored] = {}
    for file in files:
        for name, stored in read_header(file).items():
            if name in tensors:
                raise CheckpointError(f"{name} is both in {tensors[name].file} and in {file}")
            tensors[name] = stored
    return tensors


def _no_weights(directory: Path) -> CheckpointError:
    pickles = sorted(file.name for file in directory.glob("*") if file.suffix in _PICKLES)
    if pickles:
        return CheckpointError(
            f"{directory} has only pickled weights ({pickles[0]}), which can run code when opened: "
            "nothing was executed; save the model as safetensors"
        )
    return CheckpointError(f"{directory} has no weights: expected {WEIGHTS_FILE} or {INDEX_FILE}")


def _by_canonical_name(tensors: Mapping[str, Stored], directory: Path) -> dict[str, Stored]:
    found: dict[str, Stored] = {}
    for name, stored in tensors.items():
        if is_buffer(name):
            continue
        other = found.setdefault(canonical(name), stored)
        if other is not stored:
            raise CheckpointError(f"{directory}: {other.name} and {name} are the same tensor twice")
    return found


class _Misfit(Exception):
    """Says in half a sentence why a tensor cannot be what the model needs."""


def _source(
    name: str, shape: Shape, found: Mapping[str, Stored], quantization: Quantization | None
) -> Source:
    stored = found[name]
    scales = found.get(name.removesuffix("weight") + "scales")
    if scales is None:
        return _plain(stored, name, shape)
    biases = found.get(name.removesuffix("weight") + "biases")
    if quantization is None:
        raise _Misfit(f"{scales.name} is there, but config.json has no quantization")
    if biases is None:
        raise _Misfit(f"{stored.name} has scales but no biases")
    packing = Packing(scales, biases, quantization.bits, quantization.group_size)
    return _packed(stored, shape, packing)


def _plain(stored: Stored, name: str, shape: Shape) -> Source:
    if stored.dtype not in _FLOATS:
        raise _Misfit(f"{stored.name} is {stored.dtype}, not {', '.join(_FLOATS)}")
    if name == PATCHES and _is_mlx_convolution(stored, shape):
        return Source(stored, shape, "mlx")
    _require(stored, shape)
    return Source(stored, shape)


def _is_mlx_convolution(stored: Stored, shape: Shape) -> bool:
    """Tell by the shape, and where patches are as wide as deep, by who wrote the file."""
    outputs, inputs, height, width = shape
    if stored.shape != (outputs, height, width, inputs):
        return False
    return stored.shape != shape or stored.writer == "mlx"


def _packed(stored: Stored, shape: Shape, packing: Packing) -> Source:
    if len(shape) != 2 or shape[1] % packing.group_size:
        raise _Misfit(f"{stored.name} {list(shape)} has no groups of {packing.group_size}")
    outputs, inputs = shape
    _require(stored, (outputs, inputs * packing.bits // 32))
    for part in (packing.scales, packing.biases):
        _require(part, (outputs, inputs // packing.group_size))
        if part.dtype not in _FLOATS:
            raise _Misfit(f"{part.name} is {part.dtype}, not {', '.join(_FLOATS)}")
    if stored.dtype != "U32":
        raise _Misfit(f"{stored.name} is {stored.dtype} with scales, not U32")
    return Source(stored, shape, packing=packing)


def _require(stored: Stored, shape: Shape) -> None:
    if stored.shape != shape:
        raise _Misfit(f"{stored.name} is {list(stored.shape)}, expected {list(shape)}")


def _unexpected(
    found: Mapping[str, Stored], sources: Mapping[str, Source], known: Mapping[str, Shape]
) -> Iterator[str]:
    packed = (source.packing for source in sources.values() if source.packing)
    parts = {part.name for packing in packed for part in (packing.scales, packing.biases)}
    for name, stored in found.items():
        if name not in known and stored.name not in parts:
            yield f"{stored.name} is unexpected"
