"""Finds the bytes of every tensor of a model in its files, before any weight is read.

`plan` is strict: it raises an error naming a missing, unexpected or misshapen tensor. It reads only
safetensors headers; it never opens pickled weights.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from mmspec.checkpoints.config import ModelConfig, Quantization
from mmspec.checkpoints.manifest import SHORT, canonical, is_buffer, is_less_one, manifest, optional
from mmspec.checkpoints.safetensors_file import StoredTensor, TensorName, read_header
from mmspec.families.tower import Shape
from mmspec.ground.errors import CheckpointError
from mmspec.ground.input_files import is_there
from mmspec.ground.json_file import Block, Matches

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

FileName = Annotated[str, Matches(r"(?!\.{1,2}$)[^/\x00-\x1f\x7f]{1,255}")]

_FLOATS = ("F32", "F16", "BF16")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True)
class Packing:
    """Where the scales and biases of a quantized weight are: weight = scales · integers + biases.

    The weight is U32 (out, in · bits / 32), a stream of bits, least significant first; `scales` and
    `biases` are (out, in / group_size), one for each group of inputs.
    """

    scales: StoredTensor
    biases: StoredTensor
    bits: int
    group_size: int


@dataclass(frozen=True)
class TensorSource:
    """Where one tensor of a model is in the files; `shape` is the model's, in PyTorch's order.

    `layout` is "mlx" for a convolution stored with the inputs as the last axis. A quantized weight
    has a `packing`. `less_one`: the model's weight is the stored one plus 1.
    """

    tensor: StoredTensor
    shape: Shape
    layout: Literal["torch", "mlx"] = "torch"
    packing: Packing | None = None
    less_one: bool = False


def plan(directory: Path, config: ModelConfig, *, whole: bool = False) -> dict[str, TensorSource]:
    """Where each tensor that the model loads is in the checkpoint's files, by canonical name.

    whole: also optional ones that the files have and no model loads. Raises CheckpointError for
    files that are missing, malformed or pickled, and for tensors that are missing, unexpected or
    misshapen.
    """
    by_name = _by_canonical_name(read_tensors(directory), directory, config)
    shapes, spare = manifest(config), optional(config)
    if whole:
        shapes |= {name: shape for name, shape in spare.items() if name in by_name}
    settings, convolution = config.quantization, config.family.convolution
    sources = plan_shapes(by_name, shapes, spare, directory, settings, convolution=convolution)
    # Qwen3.5's norms are stored less one where MLX has not converted the short convolutions.
    if "torch" not in {source.layout for name, source in sources.items() if name.endswith(SHORT)}:
        return sources
    return {name: replace(source, less_one=is_less_one(name)) for name, source in sources.items()}


def plan_shapes(
    by_name: Mapping[str, StoredTensor],
    shapes: Mapping[str, Shape],
    spare_shapes: Mapping[str, Shape],
    directory: Path,
    quantization: Quantization | None = None,
    *,
    convolution: str = "",
) -> dict[str, TensorSource]:
    """Where each tensor of `shapes` is, by name; of `spare_shapes` only the shapes are checked.

    convolution: the name of the weight that may have MLX's order of axes.  Raises as `plan`.
    """
    sources: dict[str, TensorSource] = {}
    problems: list[str] = []
    all_shapes = {**shapes, **spare_shapes}
    for name, shape in all_shapes.items():
        if name not in by_name:
            problems += [f"{name} {list(shape)} is missing"] if name in shapes else []
            continue
        convolves = name == convolution or name.endswith(SHORT)
        try:
            sources[name] = _source(name, shape, by_name, quantization, convolves)
        except _Misfit as misfit:
            problems.append(str(misfit))
    problems += _extra_tensors(by_name, sources, all_shapes)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise CheckpointError(f"{directory}: {problems[0]}{more}")
    return {name: sources[name] for name in shapes}


def not_finite(file: Path, name: str) -> CheckpointError:
    """The error for a tensor with NaN or infinity in the type in which the model computes."""
    return CheckpointError(
        f"{file}: {name} holds NaN or infinity: the file is damaged (download it again), or its "
        "weights are too large for `dtype=float16`"
    )


def read_tensors(directory: Path) -> dict[str, StoredTensor]:
    """The headers of all tensors of a checkpoint by their stored names."""
    tensors: dict[str, StoredTensor] = {}
    for file in weight_files(directory):
        for name, tensor in read_header(file).items():
            if name in tensors:
                raise CheckpointError(f"{name} is both in {tensors[name].file} and in {file}")
            tensors[name] = tensor
    for name, shard in _shards(directory).items():
        if name not in tensors:
            raise CheckpointError(f"{directory}: {name} is missing from {shard}")
    return tensors


def has_safetensors(directory: Path) -> bool:
    """True if `directory` has weights in safetensors files."""
    return any(directory.glob("*.safetensors"))


def weight_files(directory: Path) -> list[Path]:
    """The weight files that the index names, else `model.safetensors`, else all safetensors files.

    Raises CheckpointError if any of them is missing, or there are none.
    """
    shards = sorted(set(_shards(directory).values()))
    if shards:
        return [directory / shard for shard in shards]
    single = directory / WEIGHTS_FILE
    files = [single] if is_there(single) else sorted(directory.glob("*.safetensors"))
    if files:
        return files
    pickles = sorted(file.name for file in directory.glob("*") if file.suffix in _PICKLES)
    if pickles:
        raise CheckpointError(
            f"{directory} has only pickled weights ({pickles[0]}), which can run code when opened: "
            "nothing was executed; save the model as safetensors"
        )
    raise CheckpointError(f"{directory} has no weights: expected {WEIGHTS_FILE} or {INDEX_FILE}")


def _shards(directory: Path) -> dict[str, str]:
    """The file of every tensor by the tensor's name; empty if the checkpoint has no index."""
    index = directory / INDEX_FILE
    if not is_there(index):
        return {}
    block = Block.of(index)
    shards: dict[str, str] = block.read("weight_map", dict[TensorName, FileName], {})
    for shard in set(shards.values()):
        if not is_there(directory / shard):
            raise CheckpointError(
                f"{directory}: the shard {shard} is missing, but {INDEX_FILE} names it"
            )
    return shards


def _by_canonical_name(
    tensors: Mapping[str, StoredTensor], directory: Path, config: ModelConfig
) -> dict[str, StoredTensor]:
    by_name: dict[str, StoredTensor] = {}
    for name, tensor in tensors.items():
        if is_buffer(name):
            continue
        first = by_name.setdefault(canonical(name, config), tensor)
        if first is not tensor:
            raise CheckpointError(f"{directory}: {first.name} and {name} are the same tensor twice")
    return by_name


class _Misfit(Exception):
    """The reason why a stored tensor is not the one the model needs, as half a sentence."""


def _source(
    name: str,
    shape: Shape,
    by_name: Mapping[str, StoredTensor],
    quantization: Quantization | None,
    convolves: bool,
) -> TensorSource:
    tensor = by_name[name]
    scales = by_name.get(name.removesuffix("weight") + "scales")
    if scales is None:
        _require_float(tensor)
        if convolves and _is_mlx_convolution(tensor, shape):
            return TensorSource(tensor, shape, "mlx")
        _require(tensor, shape)
        return TensorSource(tensor, shape)
    biases = by_name.get(name.removesuffix("weight") + "biases")
    if quantization is None:
        raise _Misfit(f"{scales.name} is there, but config.json has no quantization")
    if biases is None:
        raise _Misfit(f"{tensor.name} has scales but no biases")
    settings = quantization.of(tensor.name)
    packing = Packing(scales, biases, settings.bits, settings.group_size)
    return _packed_source(tensor, shape, packing)


def _is_mlx_convolution(tensor: StoredTensor, shape: Shape) -> bool:
    """True for MLX's layout, judged by the shape; if both layouts fit, by the file's `writer`."""
    outputs, inputs, *window = shape
    if tensor.shape != (outputs, *window, inputs):
        return False
    return tensor.shape != shape or tensor.writer == "mlx"


def _packed_source(tensor: StoredTensor, shape: Shape, packing: Packing) -> TensorSource:
    if len(shape) != 2 or shape[1] % packing.group_size:
        raise _Misfit(f"{tensor.name} {list(shape)} has no groups of {packing.group_size}")
    outputs, inputs = shape
    _require(tensor, (outputs, inputs * packing.bits // 32))
    for part in (packing.scales, packing.biases):
        _require(part, (outputs, inputs // packing.group_size))
        _require_float(part)
    if tensor.dtype != "U32":
        raise _Misfit(f"{tensor.name} is {tensor.dtype} with scales, not U32")
    return TensorSource(tensor, shape, packing=packing)


def _require_float(tensor: StoredTensor) -> None:
    if tensor.dtype not in _FLOATS:
        raise _Misfit(f"{tensor.name} is {tensor.dtype}, not {', '.join(_FLOATS)}")


def _require(tensor: StoredTensor, shape: Shape) -> None:
    if tensor.shape != shape:
        raise _Misfit(f"{tensor.name} is {list(tensor.shape)}, expected {list(shape)}")


def _extra_tensors(
    by_name: Mapping[str, StoredTensor],
    sources: Mapping[str, TensorSource],
    all_shapes: Mapping[str, Shape],
) -> Iterator[str]:
    packings = (source.packing for source in sources.values() if source.packing)
    parts = {part.name for packing in packings for part in (packing.scales, packing.biases)}
    for name, tensor in by_name.items():
        if name not in all_shapes and tensor.name not in parts:
            yield f"{tensor.name} is unexpected"
