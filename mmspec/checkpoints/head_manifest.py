"""The tensors of each kind of head, under their names in files.

Shapes are PyTorch's, (out, in). H width, V vocabulary, F the layer's inner width, C queries:

    eagle, msd   fc, layers.0.…                 as published, layers.0 without an input norm
    flash        fc, compressor.{queries,norm}, layers.0.… with an input norm, slots.i
    medusa       heads.i.linear, vision.…
    hydra        heads.i.linear_1 (H, (2 + i) H), heads.i.linear_2, vision.…
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from mmspec.checkpoints.head_config import PICKLE_FILE, HeadConfig
from mmspec.checkpoints.loading_plan import TensorSource, has_safetensors, plan_named, read_tensors
from mmspec.checkpoints.manifest import decoder_layer
from mmspec.checkpoints.safetensors_header import StoredTensor
from mmspec.errors import CheckpointError
from mmspec.families.decoder import TextConfig
from mmspec.families.tensors import Shape

LAYER = "layers.0"
EMBEDDING = "embed_tokens.weight"
"""Name of the copy of the target's embedding in published heads."""

_Tensors = Iterator[tuple[str, Shape]]


def head_manifest(config: HeadConfig) -> dict[str, Shape]:
    """Name and shape of every tensor that must be present and is loaded."""
    return dict(_tensors(config))


def head_optional(config: HeadConfig) -> dict[str, Shape]:
    """Name and shape of tensors that may be present and are never loaded."""
    if config.kind in ("eagle", "msd"):
        return {EMBEDDING: (config.vocab_size, config.hidden_size)}
    return {}


def plan_head(directory: Path, config: HeadConfig) -> dict[str, TensorSource]:
    """Where each tensor that the head loads is in its safetensors files, by name.

    Raises CheckpointError for files that are missing, malformed or pickled, and for tensors that
    are missing, unexpected or misshapen.
    """
    if head_pickle(directory):
        raise CheckpointError(
            f"{directory} has only pickled weights ({PICKLE_FILE}), which torch alone reads: where "
            f"it is installed, run python -m mmspec_torch.heads.convert {directory}"
        )
    tensors = read_tensors(directory)
    return plan_named(tensors, head_manifest(config), head_optional(config), directory)


def head_pickle(directory: Path) -> Path | None:
    """The pickle file of a published head; None if `directory` holds no such file."""
    file = directory / PICKLE_FILE
    return file if file.exists() and not has_safetensors(directory) else None


def require_tensors(shapes: Mapping[str, Shape], config: HeadConfig, file: Path) -> list[str]:
    """The names of the tensors to load, given the shapes of the tensors in `file`.

    Raises CheckpointError as `plan_head` does.
    """
    by_name = {name: StoredTensor(file, name, "F32", shape, 0, 0) for name, shape in shapes.items()}
    return list(plan_named(by_name, head_manifest(config), head_optional(config), file))


def _tensors(config: HeadConfig) -> _Tensors:
    width = config.hidden_size
    if config.layer:
        yield from _linear("fc", width, 2 * width, bias=config.bias)
        if config.queries:
            yield "compressor.queries", (config.queries, width)
            yield "compressor.norm.weight", (width,)
        yield from _layer(config, config.layer)
    if config.vision == "mean":
        yield "vision.weight", (width, width)
    elif config.vision == "attention":
        yield "vision.query.weight", (width, width)
        yield "vision.output.weight", (width, width)
    for slot in range(config.slots):
        yield from _slot(config.kind, slot, width)


def _slot(kind: str, slot: int, width: int) -> _Tensors:
    if kind == "flash":
        yield from _linear(f"slots.{slot}", width, width)
    elif kind == "medusa":
        yield from _linear(f"heads.{slot}.linear", width, width)
    else:
        yield from _linear(f"heads.{slot}.linear_1", width, (2 + slot) * width)
        yield from _linear(f"heads.{slot}.linear_2", width, width)


def _layer(config: HeadConfig, layer: TextConfig) -> _Tensors:
    for name, shape in decoder_layer(layer).items():
        if name != "input_layernorm" or config.input_norm:
            yield f"{LAYER}.{name}.weight", shape
        if config.qkv_bias and name.endswith(("q_proj", "k_proj", "v_proj")):
            yield f"{LAYER}.{name}.bias", shape[:1]


def _linear(path: str, outputs: int, inputs: int, *, bias: bool = True) -> _Tensors:
    yield f"{path}.weight", (outputs, inputs)
    if bias:
        yield f"{path}.bias", (outputs,)
