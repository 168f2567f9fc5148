"""Full-size checkpoints without weights: real headers over sparse files, from configs alone.

Names and shapes come from transformers (modules on the meta device) and, for quantized text, from
mlx-lm (arrays never evaluated); what the hub's files hold beside them is written by hand.
"""

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.random_checkpoints import llava, text

Entries = dict[str, tuple[str, tuple[int, ...]]]
"""Dtype and shape of each tensor, by the name that the file gives it."""

ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "I64": 8}
GROUP_SIZE, BITS = 64, 4


@dataclass(frozen=True)
class FullSize:
    """A checkpoint to be: its config and how to list its tensors; `bytes` of weights it takes."""

    config: dict[str, Any]
    layout: Callable[[dict[str, Any]], Entries]
    bytes: float
    shards: int = 1
    quantized: bool = False

    def write(self, directory: Path) -> Path:
        """Write config and sparse weights to `directory` and return it."""
        directory.mkdir(parents=True)
        config = dict(self.config)
        if self.quantized:
            config["quantization"] = {"group_size": GROUP_SIZE, "bits": BITS}
        (directory / "config.json").write_text(json.dumps(config))
        entries = self.layout(self.config)
        if self.shards == 1:
            _write_sparse(directory / "model.safetensors", entries)
        else:
            _write_shards(directory, entries, self.shards)
        return directory


def transformers_layout(config: dict[str, Any]) -> Entries:
    """List what transformers 5 saves."""
    from transformers.core_model_loading import revert_weight_conversion

    model = _meta_model(config)
    dtype = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}[config["torch_dtype"]]
    tensors = revert_weight_conversion(model, model.state_dict())
    return {name: (dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}


def hub_layout(config: dict[str, Any]) -> Entries:
    """List what the hub's files hold: a level more in the tower's names."""
    entries = transformers_layout(config)
    return {name.replace("vision_tower.", "vision_tower.vision_model."): entry
            for name, entry in entries.items()}  # fmt: skip


def mlx_layout(config: dict[str, Any]) -> Entries:
    """List a 4-bit conversion of 2024: tower and projector quantized too."""
    entries = mlx_layout_plain_vision(config)
    for name in [name for name in entries if not name.startswith("language_model.")]:
        dtype, shape = entries[name]
        if len(shape) == 2:
            outputs, inputs = shape
            stem = name.removesuffix("weight")
            entries[name] = ("U32", (outputs, inputs * BITS // 32))
            for part in ("scales", "biases"):
                entries[stem + part] = (dtype, (outputs, inputs // GROUP_SIZE))
    return entries


def mlx_layout_plain_vision(config: dict[str, Any]) -> Entries:
    """List a 4-bit conversion of today: only the text is quantized."""
    entries = {
        name: entry
        for name, entry in hub_layout(config).items()
        if not name.startswith("language_model.")
    }
    patches = "vision_tower.vision_model.embeddings.patch_embedding.weight"
    dtype, (outputs, inputs, height, width) = entries[patches]
    entries[patches] = (dtype, (outputs, height, width, inputs))
    return entries | {f"language_model.{name}": entry for name, entry in _mlx_text(config).items()}


def _meta_model(config: dict[str, Any]) -> Any:
    import torch
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        LlavaConfig,
        LlavaForConditionalGeneration,
    )

    with torch.device("meta"):
        if config["model_type"] == "llama":
            return LlamaForCausalLM(LlamaConfig(**config))
        return LlavaForConditionalGeneration(LlavaConfig(**config))


def _mlx_text(config: dict[str, Any]) -> Entries:
    """List mlx-lm's own Llama, quantized by MLX; nothing is evaluated."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten
    from mlx_lm.models import llama
    from transformers import LlamaConfig

    sizes = {**LlamaConfig(**config["text_config"]).to_dict(), "model_type": "llama"}
    sizes["rope_theta"] = sizes.pop("rope_parameters")["rope_theta"]
    model = llama.Model(llama.ModelArgs.from_dict(sizes))
    model.set_dtype(mx.float16)
    nn.quantize(model, group_size=GROUP_SIZE, bits=BITS)
    dtypes = {mx.float16: "F16", mx.uint32: "U32"}
    return {
        name: (dtypes[array.dtype], tuple(array.shape))
        for name, array in tree_flatten(model.parameters())
    }


def _write_shards(directory: Path, entries: Entries, count: int) -> None:
    names = list(entries)
    homes: dict[str, str] = {}
    for number in range(count):
        file = f"model-{number + 1:05}-of-{count:05}.safetensors"
        chosen = names[number * len(names) // count : (number + 1) * len(names) // count]
        _write_sparse(directory / file, {name: entries[name] for name in chosen})
        homes |= dict.fromkeys(chosen, file)
    index = {"metadata": {}, "weight_map": homes}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def _write_sparse(file: Path, entries: Entries) -> None:
    """Write the header and set the length; the weights are a hole in the file."""
    header: dict[str, Any] = {}
    end = 0
    for name, (dtype, shape) in entries.items():
        start, end = end, end + math.prod(shape) * ITEM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + end)


FULL_SIZE = {
    "llava-1.5-7b hub": FullSize(llava(text("vicuna-7b")), hub_layout, 14.127e9, shards=3),
    "llava-1.5-7b transformers": FullSize(llava(text("vicuna-7b")), transformers_layout, 14.127e9),
    "llava-1.5-13b hub": FullSize(llava(text("vicuna-13b")), hub_layout, 26.70e9, shards=6),
    "llava-1.5-7b mlx": FullSize(llava(text("vicuna-7b")), mlx_layout, 3.975e9, quantized=True),
    "llava-1.5-7b mlx, vision plain": FullSize(
        llava(text("vicuna-7b")), mlx_layout_plain_vision, 4.44e9, quantized=True
    ),
    "lvlm68m hub": FullSize(llava(text("draft-68m")), hub_layout, 0.746e9),
    "llama-68m hub": FullSize(text("llama-68m"), transformers_layout, 0.272e9),
}
"""Checkpoints by name; `bytes` as published, or as the parameter count has it."""
