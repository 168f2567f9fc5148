"""Qwen3.5's own drafter (multi-token prediction), in the files of its target or in others.

Its tensors are a norm of embeddings and one of hidden states, `fc`, which joins the two, a decoder
layer with gated attention, and a last norm. Embedding and output head are the target's.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mmspec.checkpoints.config import CONFIG_FILE, read_quantization
from mmspec.checkpoints.loading_plan import TensorSource, plan_shapes, read_tensors
from mmspec.checkpoints.manifest import MTP_PREFIX
from mmspec.checkpoints.safetensors_file import StoredTensor
from mmspec.families.decoder import TextConfig
from mmspec.families.qwen3_5 import QWEN3_5, QWEN3_5_TEXT, read_qwen3_5
from mmspec.families.tower import Shape
from mmspec.ground.input_files import is_there
from mmspec.ground.json_file import Block, read_json

KIND = "mtp"
"""The kind of head, and its value of --drafting."""
APART = "qwen3_5_mtp"
"""The `model_type` of a drafter in files of its own, as mlx-vlm writes it."""
MODEL_TYPES = APART, QWEN3_5.model_type, QWEN3_5_TEXT.model_type
POSITIONS = "mrope", "index"
"""What turns the layer, as `mtp_positions` in its config says: the target's positions, or the index
of a token or visual position.
"""
STATES_NORM, EMBEDDING_NORM = "pre_fc_norm_hidden", "pre_fc_norm_embedding"


def has_mtp(directory: Path) -> bool:
    """True if a checkpoint directory holds such a drafter, beside a target or alone."""
    return bool(_read_own_tensors(directory))


def is_mtp(directory: Path) -> bool:
    """True if a checkpoint directory holds such a drafter and no target."""
    tensors = _read_own_tensors(directory)
    return bool(tensors) and len(tensors) == len(read_tensors(directory))


def _read_own_tensors(directory: Path) -> dict[str, StoredTensor]:
    """The drafter's tensors in files, by their names there."""
    file = directory / CONFIG_FILE
    kind = read_json(file).get("model_type") if is_there(file) else None
    if kind not in MODEL_TYPES:
        return {}
    tensors = read_tensors(directory)
    if kind == APART:
        return tensors
    return {name: tensor for name, tensor in tensors.items() if MTP_PREFIX in name}


def read_mtp(whole: Block) -> TextConfig:
    """Read the sizes of the drafter's layer.  Raises CheckpointError."""
    text = whole.block("text_config") if whole.get("text_config") else whole
    text.only("mtp_num_hidden_layers", (1,), 1)
    text.only("mtp_use_dedicated_embeddings", (False,), False)
    layer = replace(read_qwen3_5(text), num_hidden_layers=1, delta_net=None)
    by_index = text.only("mtp_positions", POSITIONS, POSITIONS[0]) == POSITIONS[1]
    return replace(layer, rotary_axes=()) if by_index else layer


def plan_mtp(directory: Path, shapes: Mapping[str, Shape]) -> dict[str, TensorSource]:
    """Where each tensor is in the checkpoint's files; raises as `plan`.

    Norms are stored less one under the hub's names, which begin with `mtp.`, whole by MLX.
    """
    tensors = _read_own_tensors(directory)
    by_name = {name.rpartition(MTP_PREFIX)[2]: tensor for name, tensor in tensors.items()}
    quantization = read_quantization(Block.of(directory / CONFIG_FILE))
    sources = plan_shapes(by_name, shapes, {}, directory, quantization)
    if not any(MTP_PREFIX in name for name in tensors):
        return sources
    return {name: replace(source, less_one="norm" in name) for name, source in sources.items()}
