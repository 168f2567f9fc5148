"""A trained draft as a checkpoint directory: its own tensors, and the target's files around them.

A draft that sees is written with the target's tower, bit for bit, so that both share an image's
features when decoding.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from mmspec.checkpoint import WEIGHTS_FILE, matched, read_tensors
from mmspec.config import CONFIG_FILE, read_config
from mmspec.jsonfile import read_json
from mmspec.manifest import canonical, is_buffer, manifest, optional
from mmspec_torch.train.drafts.student import INNER, Student, canonical_tensors, llama_config
from mmspec_torch.weights import read_tensor

TOWER = "vision_tower."
DTYPE = "float16"
KINDS = {"F32": torch.float32, "BF16": torch.bfloat16}
PACKING = ("quantization", "quantization_config")
TEXT_FILES = ("tokenizer*", "special_tokens_map.json", "chat_template*", "generation_config.json")
SIGHT_FILES = ("preprocessor_config.json", "processor_config.json")


def save(student: Student, target: Path, directory: Path) -> None:
    """Write a draft for the target in another directory, in float16."""
    directory.mkdir(parents=True, exist_ok=True)
    for pattern in (*TEXT_FILES, *(SIGHT_FILES if student.sees else ())):
        for file in target.glob(pattern):
            shutil.copyfile(file, directory / file.name)
    own = canonical_tensors(student)
    stored = {_name(name, student.sees): t.detach().half().cpu() for name, t in own.items()}
    if student.sees:
        stored |= tower(target)
    tensors = {name: tensor.contiguous() for name, tensor in stored.items()}
    save_file(tensors, directory / WEIGHTS_FILE, metadata={"format": "pt"})
    described = json.dumps(_described(student, target), indent=2) + "\n"
    (directory / CONFIG_FILE).write_text(described, encoding="utf-8")


def tower(target: Path) -> dict[str, Tensor]:
    """A checkpoint's vision tower as it is stored, all layers, by the names that are written."""
    config = read_config(target)
    stored = {n: each for n, each in read_tensors(target).items() if not is_buffer(n)}
    found = {canonical(name): each for name, each in stored.items()}
    known = manifest(config) | optional(config)
    there = {n: shape for n, shape in known.items() if n.startswith(TOWER) and n in found}
    sources = matched(found, there, known, target, config.quantization)
    return {
        "model." + name: read_tensor(source, KINDS.get(source.stored.dtype, torch.float16))
        for name, source in sources.items()
    }


def _name(name: str, sees: bool) -> str:
    """The name that transformers 5 gives a canonical tensor of a LLaVA, or of a Llama."""
    if name == "lm_head.weight":
        return name
    return "model." + (name if sees else name.removeprefix(INNER))


def _described(student: Student, target: Path) -> dict[str, Any]:
    text = llama_config(student.text).to_dict()
    if not student.sees:
        return text | {"architectures": ["LlamaForCausalLM"], "dtype": DTYPE}
    found = read_json(target / CONFIG_FILE)
    whole = {key: value for key, value in found.items() if key not in PACKING}
    tied = student.text.tie_word_embeddings
    return whole | {"text_config": text, "dtype": DTYPE, "tie_word_embeddings": tied}
