"""Heads from their directories."""

from functools import partial
from pathlib import Path

import mlx.core as mx

from mmspec.errors import CheckpointError, UsageError
from mmspec.heads.config import read_head_config, require_fit
from mmspec.heads.head import Head
from mmspec.heads.manifest import plan_head
from mmspec.heads.seam import Base
from mmspec.seam import Target
from mmspec_mlx.heads.modules import MlxParts
from mmspec_mlx.llama import Llama
from mmspec_mlx.llava import MlxModel
from mmspec_mlx.target import MlxTarget
from mmspec_mlx.weights import Files, Weights


def load_head(directory: Path, model: MlxModel) -> Head[mx.array]:
    """Load a head strictly, to draft for `model`.  Raises CheckpointError or UsageError."""
    config = read_head_config(directory)
    require_fit(config, model.config, directory)
    weights = Weights(plan_head(directory, config), model.llama.dtype, Files(), mx.eval)
    parts, base = MlxParts(weights), partial(_read, model.llama)
    head = Head(config, parts, base, model.config.image_token_id)
    if weights.unused():
        raise CheckpointError(f"a {config.kind} head does not use {weights.unused()[0]}")
    return head


def _read(llama: Llama, target: Target) -> Base[mx.array]:
    """What a head reads of a target and of `llama`, its decoder."""
    if not isinstance(target, MlxTarget):
        raise UsageError(f"a head on MLX cannot read a {type(target).__name__}")
    target.keep_trail()
    return Base(target.states, target.inputs, llama.embed, llama.project)
