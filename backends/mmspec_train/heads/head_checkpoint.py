"""Builds heads to train from configs, and writes them as checkpoint directories."""

import json
from dataclasses import replace
from pathlib import Path

import torch

from mmspec.checkpoints.block_config import BLOCK_KINDS, BlockDraft
from mmspec.checkpoints.config import CONFIG_FILE, ModelConfig
from mmspec.checkpoints.eagle3_config import Eagle3, default_layers
from mmspec.checkpoints.head_config import KINDS_WITH_LAYER, KINDS_WITH_SLOTS, HeadConfig
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec.ground.errors import choice
from mmspec.ground.output_files import make_directory, replace_text
from mmspec_torch.device.devices import DTYPES
from mmspec_torch.device.tensor_files import save_tensors
from mmspec_train.heads.block import BlockModule
from mmspec_train.heads.eagle3 import Eagle3Module
from mmspec_train.heads.head import Head
from mmspec_train.heads.layered import LayeredModule
from mmspec_train.heads.slotted import SlottedModule
from mmspec_train.settings import HEADS, HeadShape

COMPRESSION = 9
"""Default number of visual positions per query of FLASH, as in its paper."""


def head_config(kind: str, target: ModelConfig, shape: HeadShape) -> HeadConfig:
    """Return the config of a new head for a target; UsageError for a kind that is none of HEADS."""
    if kind not in HEADS:
        raise choice("kind of head", kind, HEADS)
    text = target.text
    is_block = kind in BLOCK_KINDS
    has_axes = kind == "eagle3" or (is_block and shape.rotary == "mrope")
    layer = replace(
        text,
        num_hidden_layers=shape.layers if is_block else 1,
        intermediate_size=shape.ffn or text.intermediate_size,
        tie_word_embeddings=False,
        qkv_bias=False,
        qk_norm=is_block,
        rotary_axes=text.rotary_axes if has_axes else (),
        rotary_scaling=None,
    )
    has_norms = shape.norms == "3.1"
    eagle3 = Eagle3(
        min(shape.draft_vocabulary or text.vocab_size, text.vocab_size),
        _captured_layers(text.num_hidden_layers),
        fc_norm=has_norms,
        norm_output=has_norms,
    )
    queries = target.image_tokens // COMPRESSION if shape.queries is None else shape.queries
    return HeadConfig(
        kind=kind,
        hidden_size=text.hidden_size,
        vocab_size=text.vocab_size,
        slots=shape.slots if is_block or kind in KINDS_WITH_SLOTS else 0,
        queries=queries if kind == "flash" else 0,
        vision=shape.vision if kind == "medusa" else "none",
        bias=kind != "eagle3" and not is_block,
        input_norm=is_block or kind in ("flash", "eagle3"),
        layer=layer if is_block or kind in KINDS_WITH_LAYER else None,
        dtype="float16",
        eagle3=eagle3 if kind == "eagle3" else None,
        block=_block(kind, target, shape) if is_block else None,
    )


def _block(kind: str, target: ModelConfig, shape: HeadShape) -> BlockDraft:
    """The options of a new block drafter, in the convention of the kind's authors."""
    text, image = target.text, target.image_id
    is_dspark = kind == "dspark"
    rank = shape.markov_rank if is_dspark else 0
    return BlockDraft(
        text.vocab_size,
        _captured_layers(text.num_hidden_layers),
        shape.slots + (not is_dspark),
        # The embedding of neither stands in a text: an image's is replaced by its features.
        text.vocab_size - 1 if image is None else image,
        is_dspark,
        image_context=shape.image_context,
        markov_rank=rank,
        enable_confidence_head=is_dspark,
        confidence_head_with_markov=rank > 0,
    )


def _captured_layers(total: int) -> tuple[int, ...]:
    """The layers that a new head reads of `total`; small targets lack the usual ones."""
    layers = default_layers(total)
    if 0 < layers[0] < layers[1] < layers[2]:
        return layers
    return tuple(range(max(0, total - 2), total + 1))


def new_head(config: HeadConfig, seed: int) -> Head:
    """Build a head with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    if config.layer is None:
        return SlottedModule(config)
    if config.block:
        return BlockModule(config, config.block, config.layer)
    if config.eagle3:
        return Eagle3Module(config, config.eagle3, config.layer)
    return LayeredModule(config, config.layer)


def save_head(head: Head, directory: Path) -> None:
    """Write a head as a checkpoint directory, in the dtype that its config names."""
    make_directory(directory)
    dtype = DTYPES[head.config.dtype or "float32"]
    tensors = {n: t.to(dtype) if t.is_floating_point() else t for n, t in head.tensors.items()}
    save_tensors(directory / WEIGHTS_FILE, tensors)
    # The config comes last: without it the directory is no model.
    replace_text(directory / CONFIG_FILE, json.dumps(head.config.to_config(), indent=2) + "\n")
