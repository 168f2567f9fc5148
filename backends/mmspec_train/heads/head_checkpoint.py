"""Builds heads to train from configs, and writes them as checkpoint directories."""

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from mmspec import errors
from mmspec.checkpoints.config import CONFIG_FILE, ModelConfig
from mmspec.checkpoints.head_config import KINDS, LAYERED, SLOTTED, HeadConfig
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec_torch.device import DTYPES
from mmspec_train.heads.layered import Layered
from mmspec_train.heads.slotted import Slotted
from mmspec_train.settings import HeadShape

COMPRESSION = 9
"""Default number of visual positions per query of FLASH, as in its paper."""
Head = Layered | Slotted


def head_config(kind: str, target: ModelConfig, shape: HeadShape) -> HeadConfig:
    """Return the config of a new head for a target.  Raises UsageError for an unknown kind."""
    if kind not in KINDS:
        raise errors.choice("kind of head", kind, KINDS)
    text = target.text
    ffn = shape.ffn or text.intermediate_size
    layer = replace(text, num_hidden_layers=1, intermediate_size=ffn)
    queries = target.image_tokens // COMPRESSION if shape.queries is None else shape.queries
    return HeadConfig(
        kind=kind,
        hidden_size=text.hidden_size,
        vocab_size=text.vocab_size,
        slots=shape.slots if kind in SLOTTED else 0,
        queries=queries if kind == "flash" else 0,
        vision=shape.vision if kind in ("medusa", "hydra") else "none",
        input_norm=kind == "flash",
        layer=layer if kind in LAYERED else None,
        dtype="float16",
    )


def untrained_head(config: HeadConfig, seed: int) -> Head:
    """Build a head with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    return Layered(config, config.layer) if config.layer else Slotted(config)


def max_depth(head: Head, limit: int) -> int:
    """Return the number of tokens a head can draft, at most `limit`."""
    return min(limit, head.config.slots) if head.config.slots else limit


def save_head(head: Head, directory: Path) -> None:
    """Write a head as a checkpoint directory, in the dtype that its config names."""
    directory.mkdir(parents=True, exist_ok=True)
    dtype = DTYPES[head.config.dtype or "float32"]
    tensors = head.state_dict()
    stored = {name: t.detach().to(dtype).cpu().contiguous() for name, t in tensors.items()}
    save_file(stored, directory / WEIGHTS_FILE, metadata={"format": "pt"})
    config = json.dumps(head.config.described(), indent=2) + "\n"
    (directory / CONFIG_FILE).write_text(config, encoding="utf-8")
