"""How much memory a model takes, computed from the shapes in its config."""

from math import prod

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.manifest import EMBEDDING, LM_HEAD, TOWER, manifest
from mmspec.families.decoder import TextConfig

PRECISIONS = (16, 8, 4)
"""Bits of a weight: as published, and as `mmspec models quantize` writes them."""
GROUP = 64
"""Weights that share a scale and an offset of 16 bits each."""


def weight_bytes(config: ModelConfig, bits: int) -> int:
    """Bytes of all weights; with fewer than 16 bits the vision tower stays in 16."""
    return sum(_bytes(name, shape, bits) for name, shape in manifest(config).items())


def step_bytes(config: ModelConfig, bits: int) -> int:
    """Bytes of the weights that one forward of a token reads: the layers and the output head."""
    head = EMBEDDING if config.text.tie_word_embeddings else LM_HEAD
    shapes = manifest(config).items()
    read = ((name, shape) for name, shape in shapes if ".layers." in name or name == head)
    return sum(_bytes(name, shape, bits) for name, shape in read if not name.startswith(TOWER))


def _bytes(name: str, shape: tuple[int, ...], bits: int) -> int:
    whole = bits == 16 or name.startswith(TOWER) or len(shape) != 2 or shape[1] % GROUP
    return prod(shape) * 2 if whole else prod(shape) * bits // 8 + prod(shape) // GROUP * 4


def cache_bytes(text: TextConfig, positions: int, width: int = 2) -> int:
    """Bytes of the keys and values of so many positions; width: bytes of a number."""
    features = text.num_key_value_heads * text.head_dim
    return 2 * text.num_hidden_layers * features * width * positions
