"""Loads heads from checkpoint directories."""

from pathlib import Path

import mlx.core as mx

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.head_config import read_head_config, require_fit
from mmspec.checkpoints.head_manifest import plan_head, read_draft_ids
from mmspec.drafters.heads.head import PredictiveHead
from mmspec.ground.errors import CheckpointError
from mmspec_mlx.device.weights import Files, Weights, evaluate
from mmspec_mlx.heads.modules import MlxParts


def load_head(directory: Path, target: ModelConfig, dtype: mx.Dtype) -> PredictiveHead[mx.array]:
    """Load a head that drafts for `target`, in its dtype.  Raises CheckpointError or UsageError."""
    config = read_head_config(directory)
    require_fit(config, target, directory)
    weights = Weights(plan_head(directory, config), dtype, Files(), evaluate)
    head = PredictiveHead(config, MlxParts(weights), target, read_draft_ids(directory, config))
    if weights.unused():
        raise CheckpointError(f"a {config.kind} head does not use {weights.unused()[0]}")
    return head
