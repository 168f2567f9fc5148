"""Writes a trained draft as a checkpoint directory, with the target's tokenizer and tower.

A draft with vision gets an exact copy of the target's tower, so that decoding computes an image's
features once for both.
"""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmspec.checkpoints.config import CONFIG_FILE, read_config
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE, plan, plan_named, read_tensors
from mmspec.checkpoints.manifest import (
    TOWER,
    canonical,
    hub_name,
    is_buffer,
    manifest,
    optional,
)
from mmspec.families.llama import Llama
from mmspec.families.tensors import renamed
from mmspec.ground.json_file import read_json
from mmspec.ground.output_files import make_directory, replace_file, replace_text
from mmspec_torch.device.tensor_files import save_tensors
from mmspec_torch.device.weights import read_tensor
from mmspec_train.drafts.draft_model import DraftModel
from mmspec_train.llama import llama_config

DTYPE = "float16"
TOWER_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16}
"""Types in which the target's tower is stored unchanged; other types become float16."""
QUANTIZATION_KEYS = ("quantization", "quantization_config")
TEXT_FILES = ("tokenizer*", "special_tokens_map.json", "chat_template*", "generation_config.json")
VISION_FILES = ("preprocessor_config.json", "processor_config.json")


def save_draft(model: DraftModel, target: Path, directory: Path) -> None:
    """Write `model`, a draft for the checkpoint `target`, to `directory` in float16."""
    make_directory(directory)
    for pattern in (*TEXT_FILES, *(VISION_FILES if model.sees else ())):
        for file in target.glob(pattern):
            with replace_file(directory / file.name) as partial:
                shutil.copyfile(file, partial)
    own = model.state_dict()
    if model.text.tie_word_embeddings:
        del own["lm_head.weight"]
    prefixes = (read_config(target).family if model.sees else Llama()).hub_prefixes
    tensors = {renamed(name, prefixes): tensor.half() for name, tensor in own.items()}
    if model.sees:
        tensors |= read_tower(target)
    save_tensors(directory / WEIGHTS_FILE, tensors)
    # The config comes last: without it the directory is no model.
    replace_text(directory / CONFIG_FILE, json.dumps(_config(model, target), indent=2) + "\n")


def read_tower(target: Path) -> dict[str, Tensor]:
    """Return a checkpoint's whole vision tower, by the hub's tensor names."""
    config = read_config(target)
    stored = {n: tensor for n, tensor in read_tensors(target).items() if not is_buffer(n)}
    by_name = {canonical(name, config): tensor for name, tensor in stored.items()}
    shapes = manifest(config) | optional(config)
    tower = {n: shape for n, shape in shapes.items() if n.startswith(TOWER) and n in by_name}
    sources = plan_named(by_name, tower, shapes, target, config.quantization)
    return {
        hub_name(name, config): read_tensor(
            source, TOWER_DTYPES.get(source.stored.dtype, torch.float16)
        )
        for name, source in sources.items()
    }


def tower_digest(directory: Path) -> str:
    """Return a digest of the vision tower that a checkpoint's images go through, in float32.

    Reads one tensor at a time, so that a target need not fit into memory.
    """
    config = read_config(directory)
    total = sha256(repr(config.vision).encode())
    for name, source in sorted(plan(directory, config).items()):
        if name.startswith(TOWER):
            total.update(read_tensor(source, torch.float32).contiguous().numpy().data)
    return total.hexdigest()


def _config(model: DraftModel, target: Path) -> dict[str, Any]:
    text = llama_config(model.text).to_dict()
    if not model.sees:
        return text | {"architectures": ["LlamaForCausalLM"], "dtype": DTYPE}
    whole = read_json(target / CONFIG_FILE)
    whole = {key: value for key, value in whole.items() if key not in QUANTIZATION_KEYS}
    tied = model.text.tie_word_embeddings
    return whole | {"text_config": text, "dtype": DTYPE, "tie_word_embeddings": tied}
