"""How many parameters a drafted token costs, as a share of the target's."""

from collections.abc import Mapping
from math import prod

from mmspec.chat.models import Models
from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.head_config import HeadConfig
from mmspec.checkpoints.head_manifest import head_manifest
from mmspec.checkpoints.manifest import manifest
from mmspec.families.tensors import Shape

DECODER = ("language_model.", "lm_head.")
"""Beginnings of the canonical names of tensors that every token reads."""


def drafted_share(models: Models) -> float:
    """Parameters read for a drafted token over those read for a token of the target; 0 without.

    Of a draft these are its decoder's. Of a head they are its own, those of one slot if it has
    slots, and the target's output matrix.
    """
    target = _decoder(models.target.model.config)
    if models.head:
        return _head(models.head.head.config) / target
    return _decoder(models.draft.model.config) / target if models.draft else 0.0


def _decoder(config: ModelConfig) -> int:
    shapes = manifest(config).items()
    return _count({name: shape for name, shape in shapes if name.startswith(DECODER)})


def _head(config: HeadConfig) -> float:
    output_matrix = config.hidden_size * config.vocab_size
    return _count(head_manifest(config)) / (config.slots or 1) + output_matrix


def _count(shapes: Mapping[str, Shape]) -> int:
    return sum(map(prod, shapes.values()))
