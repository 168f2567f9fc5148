"""Loads heads from checkpoint directories."""

from pathlib import Path

import mlx.core as mx

from mmspec.checkpoints.draft_vocabulary import read_draft_ids
from mmspec.checkpoints.head_config import read_head_config, require_fit
from mmspec.checkpoints.head_manifest import plan_head
from mmspec.drafters.heads.head import Head
from mmspec.ground.errors import CheckpointError
from mmspec_mlx.heads.modules import MlxParts
from mmspec_mlx.model import MlxModel
from mmspec_mlx.weights import Files, Weights, evaluate


def load_head(directory: Path, model: MlxModel) -> Head[mx.array]:
    """Load a head that drafts for `model`.  Raises CheckpointError or UsageError."""
    config = read_head_config(directory)
    require_fit(config, model.config, directory)
    weights = Weights(plan_head(directory, config), model.language.dtype, Files(), evaluate)
    head = Head(config, MlxParts(weights), model.config, read_draft_ids(directory, config))
    if weights.unused():
        raise CheckpointError(f"a {config.kind} head does not use {weights.unused()[0]}")
    return head
