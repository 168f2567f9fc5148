"""The tensors of each kind of head, under their names in files.

Shapes are PyTorch's, (out, in). H width, V vocabulary, d tokens that a head can draft,
F the layer's inner width, C queries:

    eagle, msd   fc, layers.0.…                 as published, layers.0 without an input norm
    eagle3       fc, fc_norm.i or input_norm, layers.0.… with hidden_norm and inputs of 2 H,
                 norm, lm_head; d2t and t2d, which `read_draft_ids` reads
    dflash       fc, hidden_norm, layers.i.…, norm; lm_head, d2t and t2d if d < V
    dspark       as dflash, and markov_head.…, confidence_head.proj
    mtp          as eagle, with an input norm, pre_fc_norm_embedding, pre_fc_norm_hidden, norm
    vispec       as eagle, and imadpt.{q,k_proj,v_proj,o_proj}, img_fc
    flash        fc, compressor.{queries,norm}, layers.0.… with an input norm, slots.i
    medusa       heads.i.linear, vision
    hydra        heads.i.linear_1 (H, (2 + i) H), heads.i.linear_2
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmspec.checkpoints import mtp
from mmspec.checkpoints.block_config import BlockDraft
from mmspec.checkpoints.eagle3_config import Eagle3
from mmspec.checkpoints.head_config import PICKLE_FILE, VIEW_QUERIES, HeadConfig
from mmspec.checkpoints.loading_plan import TensorSource, has_safetensors, plan_shapes, read_tensors
from mmspec.checkpoints.manifest import decoder_layer
from mmspec.checkpoints.safetensors_file import StoredTensor, read_content
from mmspec.families.decoder import TextConfig
from mmspec.families.tower import Shape, rename
from mmspec.ground.errors import CheckpointError

LAYER = "layers.0"
EMBEDDING = "embed_tokens.weight"
"""Name of the copy of the target's embedding in published heads."""
OUTPUT = "lm_head.weight"
MARKOV, CONFIDENCE = "markov_head", "confidence_head.proj"

VOCABULARY_MAPS = ("d2t", "t2d")
"""Integers and flags that say which of the target's tokens an EAGLE-3 head can draft."""
_TYPES = {"I64": np.int64, "I32": np.int32, "BOOL": np.bool_, "U8": np.uint8}
VIEW, VIEW_FUSION = "imadpt", "img_fc"
"""Where ViSpec's heads make vectors of an image, and join one to every state."""
MIDLAYER = "midlayer."
"""Beginning of the layer's names in SpecForge's, AngelSlim's and EAGLE's own files."""

_Tensors = Iterator[tuple[str, Shape]]


def head_manifest(config: HeadConfig) -> dict[str, Shape]:
    """Name and shape of every tensor that must be present and is loaded."""
    return dict(_tensors(config))


def head_optional(config: HeadConfig) -> dict[str, Shape]:
    """Name and shape of tensors that may be present and are never loaded."""
    copy = config.vocab_size, config.hidden_size
    if config.block and config.draft_vocab_size == config.vocab_size:
        return {EMBEDDING: copy, OUTPUT: copy}
    if config.block or config.kind in ("eagle", "eagle3", "msd", "vispec"):
        return {EMBEDDING: copy}
    return {}


def plan_head(directory: Path, config: HeadConfig) -> dict[str, TensorSource]:
    """Where each tensor that the head loads is in its files, by name; raises as `plan`."""
    if head_pickle(directory):
        raise CheckpointError(
            f"{directory} has only pickled weights ({PICKLE_FILE}), which torch alone reads: where "
            f"it is installed, run python -m mmspec_torch.heads.convert {directory}"
        )
    if config.kind == mtp.KIND:
        return mtp.plan_mtp(directory, head_manifest(config))
    weights = _weights(read_tensors(directory), config, directory)
    return plan_shapes(weights, head_manifest(config), head_optional(config), directory)


def head_pickle(directory: Path) -> Path | None:
    """The pickle file of a published head; None if `directory` holds no such file."""
    file = directory / PICKLE_FILE
    return file if file.exists() and not has_safetensors(directory) else None


def require_tensors(shapes: Mapping[str, Shape], config: HeadConfig, file: Path) -> dict[str, str]:
    """The tensors to load and their names in `file`, by the shapes in it; raises as `plan_head`."""
    tensors = {name: StoredTensor(file, name, "F32", shape, 0, 0) for name, shape in shapes.items()}
    weights = _weights(tensors, config, file)
    sources = plan_shapes(weights, head_manifest(config), head_optional(config), file)
    return {name: source.tensor.name for name, source in sources.items()}


def _weights(
    tensors: Mapping[str, StoredTensor], config: HeadConfig, directory: Path
) -> dict[str, StoredTensor]:
    """The tensors of a head without its vocabulary, under speculators' names.

    Raises CheckpointError for a tensor under two names.
    """
    if config.draft_vocab_size is None:
        return dict(tensors)
    weights: dict[str, StoredTensor] = {}
    for name, tensor in tensors.items():
        own_name = rename(name, ((MIDLAYER, f"{LAYER}."),))
        if name not in VOCABULARY_MAPS and weights.setdefault(own_name, tensor) != tensor:
            raise CheckpointError(f"{directory}: {name} and {own_name} are one tensor twice")
    return weights


def _tensors(config: HeadConfig) -> _Tensors:
    width = config.hidden_size
    if config.eagle3 and config.layer:
        yield from _eagle3(config.eagle3, config.layer)
    elif config.block and config.layer:
        yield from _block(config.block, config.layer)
        return
    elif config.layer:
        yield from _linear("fc", width, 2 * width, bias=config.bias)
        if config.kind == mtp.KIND:
            for norm in (mtp.EMBEDDING_NORM, mtp.STATES_NORM, "norm"):
                yield f"{norm}.weight", (width,)
        if config.kind == "vispec":
            yield from _views(config, config.layer)
        elif config.queries:
            yield "compressor.queries", (config.queries, width)
            yield "compressor.norm.weight", (width,)
        for name, shape in decoder_layer(config.layer).items():
            if name != "input_layernorm.weight" or config.input_norm:
                yield f"{LAYER}.{name}", shape
    if config.vision == "mean":
        yield from _linear("vision", width, width, bias=False)
    for slot in range(config.slots):
        if config.kind == "hydra":
            yield from _linear(f"heads.{slot}.linear_1", width, (2 + slot) * width)
            yield from _linear(f"heads.{slot}.linear_2", width, width)
        else:
            path = f"slots.{slot}" if config.kind == "flash" else f"heads.{slot}.linear"
            yield from _linear(path, width, width)


def _eagle3(options: Eagle3, layer: TextConfig) -> _Tensors:
    width, count = layer.hidden_size, options.count
    if options.norm_before_fc:
        yield "input_norm.weight", (count * width,)
    for index in range(count if options.fc_norm else 0):
        yield f"fc_norm.{index}.weight", (width,)
    yield "fc.weight", (width, count * width)
    yield f"{LAYER}.hidden_norm.weight", (width,)
    for name, shape in decoder_layer(layer).items():
        reads_pair = name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight"))
        yield f"{LAYER}.{name}", (shape[0], 2 * width) if reads_pair else shape
    yield "norm.weight", (width,)
    yield OUTPUT, (options.draft_vocab_size, width)


def _block(options: BlockDraft, layers: TextConfig) -> _Tensors:
    width, rank, outputs = layers.hidden_size, options.markov_rank, options.draft_vocab_size
    yield "fc.weight", (width, len(options.captured_layers) * width)
    yield "hidden_norm.weight", (width,)
    for index in range(layers.num_hidden_layers):
        for name, shape in decoder_layer(layers).items():
            yield f"layers.{index}.{name}", shape
    yield "norm.weight", (width,)
    if outputs < layers.vocab_size:
        yield OUTPUT, (outputs, width)
    if rank:
        yield f"{MARKOV}.markov_w1.weight", (layers.vocab_size, rank)
        yield f"{MARKOV}.markov_w2.weight", (outputs, rank)
        if options.markov_head_type == "gated":
            yield from _linear(f"{MARKOV}.gate_proj", rank, width + rank)
        elif options.markov_head_type == "rnn":
            yield from _linear(f"{MARKOV}.joint_proj", 3 * rank, width + 2 * rank)
    if options.enable_confidence_head:
        inputs = width + (rank if options.confidence_head_with_markov else 0)
        yield from _linear(CONFIDENCE, 1, inputs)


def _views(config: HeadConfig, layer: TextConfig) -> _Tensors:
    """What makes vectors of an image, and joins the last of them to every state."""
    width = layer.hidden_size
    inner = layer.num_attention_heads * layer.head_dim
    yield VIEW_QUERIES, (config.queries, layer.num_attention_heads, layer.head_dim)
    for part in "kv":
        yield from _linear(f"{VIEW}.{part}_proj", inner, width, bias=layer.qkv_bias)
    yield from _linear(f"{VIEW}.o_proj", width, inner, bias=False)
    yield from _linear(VIEW_FUSION, width, 2 * width, bias=config.bias)


def _linear(path: str, outputs: int, inputs: int, *, bias: bool = True) -> _Tensors:
    yield f"{path}.weight", (outputs, inputs)
    if bias:
        yield f"{path}.bias", (outputs,)


def read_draft_ids(directory: Path, config: HeadConfig) -> list[int] | None:
    """The target's id [d] of each token that the head can draft; None if it drafts all of them.

    Raises CheckpointError if d2t or t2d is missing, damaged or contradicts the other.
    """
    tensors = {} if config.draft_vocab_size is None else read_tensors(directory)
    maps = {name: _array(tensors[name]) for name in VOCABULARY_MAPS if name in tensors}
    return draft_ids(maps, config, directory)


def draft_ids(
    maps: Mapping[str, NDArray[np.generic]], config: HeadConfig, place: Path
) -> list[int] | None:
    """As `read_draft_ids`, of the arrays in a file: d2t [d], what to add to each id, and t2d [V].

    t2d may be missing: d2t says the same. Both may be missing where d is V.
    """
    if config.draft_vocab_size is None:
        return None
    count, vocabulary = config.draft_vocab_size, config.vocab_size
    for name, array in maps.items():
        size = count if name == "d2t" else vocabulary
        if array.shape != (size,) or array.dtype.kind not in "iub":
            raise CheckpointError(
                f"{place}: {name} is {array.dtype} {list(array.shape)}, expected integers [{size}]"
            )
    if "d2t" not in maps:
        if count == vocabulary:
            return None
        raise CheckpointError(f"{place}: d2t [{count}] is missing, which maps the head's tokens")
    ids = maps["d2t"].astype(np.int64) + np.arange(count)
    if len(np.unique(ids)) < count or ids.min() < 0 or ids.max() >= vocabulary:
        raise CheckpointError(f"{place}: d2t does not map to {count} tokens below {vocabulary}")
    if "t2d" in maps and set(np.flatnonzero(maps["t2d"])) != set(ids):
        raise CheckpointError(f"{place}: t2d and d2t do not name the same tokens")
    return None if count == vocabulary and (ids == np.arange(count)).all() else ids.tolist()


def _array(tensor: StoredTensor) -> NDArray[np.generic]:
    if tensor.dtype not in _TYPES:
        types = ", ".join(_TYPES)
        raise CheckpointError(f"{tensor.file}: {tensor.name} is {tensor.dtype}, not {types}")
    content = read_content(tensor).content
    return np.frombuffer(content, _TYPES[tensor.dtype]).reshape(tensor.shape)
