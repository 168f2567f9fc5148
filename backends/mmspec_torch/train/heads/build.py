"""Heads to train from their configs, and back to checkpoint directories."""

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from mmspec import errors
from mmspec.checkpoint import WEIGHTS_FILE
from mmspec.config import CONFIG_FILE, ModelConfig
from mmspec.heads.config import KINDS, LAYERED, SLOTTED, HeadConfig
from mmspec.heads.manifest import head_manifest
from mmspec_torch.device import DTYPES
from mmspec_torch.train.heads.layered import Layered
from mmspec_torch.train.heads.slotted import Slotted

SLOTS = 5
COMPRESSION = 9
"""Visual positions that one of FLASH's queries stands for by default, as in its paper."""
Head = Layered | Slotted


def head_config(
    kind: str,
    target: ModelConfig,
    *,
    slots: int = SLOTS,
    queries: int | None = None,
    vision: str = "none",
    inner: int | None = None,
) -> HeadConfig:
    """Describe a new head of a kind for a target.

    slots: places of medusa, hydra and flash.  queries: latents per image of flash, by default a
    ninth of its positions.  inner: width of the layer's MLP, by default the target's own.
    Raises UsageError for an unknown kind.
    """
    if kind not in KINDS:
        raise errors.choice("kind of head", kind, KINDS)
    text = target.text
    layer = replace(text, num_hidden_layers=1, intermediate_size=inner or text.intermediate_size)
    ninth = target.image_tokens // COMPRESSION
    return HeadConfig(
        kind=kind,
        hidden_size=text.hidden_size,
        vocab_size=text.vocab_size,
        slots=slots if kind in SLOTTED else 0,
        queries=(ninth if queries is None else queries) if kind == "flash" else 0,
        vision=vision if kind in ("medusa", "hydra") else "none",
        input_norm=kind == "flash",
        layer=layer if kind in LAYERED else None,
        dtype="float16",
    )


def untrained(config: HeadConfig, seed: int) -> Head:
    """Build a head with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    return Layered(config, config.layer) if config.layer else Slotted(config)


def depth_of(head: Head, wanted: int) -> int:
    """Return how deep a head can draft, up to `wanted` tokens."""
    return min(wanted, head.config.slots) if head.config.slots else wanted


def tensors(head: Head) -> dict[str, Tensor]:
    """Return a head's tensors, held to the manifest of its kind."""
    found = head.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
    if shapes != (wanted := head_manifest(head.config)):
        raise AssertionError(f"{head.config.kind}: {sorted(shapes.items() ^ wanted.items())}")
    return found


def save(head: Head, directory: Path) -> None:
    """Write a head as a checkpoint directory, its tensors in the type that its config names."""
    directory.mkdir(parents=True, exist_ok=True)
    kind = DTYPES[head.config.dtype or "float32"]
    stored = {name: t.detach().to(kind).cpu().contiguous() for name, t in tensors(head).items()}
    save_file(stored, directory / WEIGHTS_FILE, metadata={"format": "pt"})
    described = json.dumps(head.config.described(), indent=2) + "\n"
    (directory / CONFIG_FILE).write_text(described, encoding="utf-8")
