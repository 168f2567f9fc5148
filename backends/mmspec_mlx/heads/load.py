"""Heads from their directories."""

from pathlib import Path

import mlx.core as mx

from mmspec.errors import CheckpointError, UsageError
from mmspec.heads.config import HeadConfig, read_head_config, require_fit
from mmspec.heads.drafter import HeadDrafter
from mmspec.heads.forwards import Setting, open_drafter
from mmspec.heads.manifest import plan_head
from mmspec.heads.modules import take
from mmspec.heads.seam import Base
from mmspec.sampling import Sampling
from mmspec.seam import Target
from mmspec.tree import Tree
from mmspec_mlx.heads.modules import MlxParts
from mmspec_mlx.llava import MlxModel
from mmspec_mlx.target import MlxTarget
from mmspec_mlx.weights import Files, Weights


class MlxHead:
    """See `mmspec.seam.Head`."""

    def __init__(self, weights: Weights, config: HeadConfig, model: MlxModel) -> None:
        """Take every tensor; raises CheckpointError where some are left."""
        self.config = config
        self._model = model
        self._parts = take(MlxParts(weights), config)
        if weights.unused():
            raise CheckpointError(f"a {config.kind} head does not use {weights.unused()[0]}")

    def open_drafter(
        self, target: Target, sampling: Sampling, tree: Tree | None = None
    ) -> HeadDrafter:
        """Start an empty sequence beside `target`, which keeps its hidden states from now on."""
        if not isinstance(target, MlxTarget):
            raise UsageError(f"a head on MLX cannot read a {type(target).__name__}")
        target.keep_trail()
        llama, image = self._model.llama, self._model.config.image_token_id
        base = Base(target.states, target.inputs, llama.embed, llama.project)
        return open_drafter(self._parts, self.config, Setting(base, sampling, tree), image)


def load_head(directory: Path, model: MlxModel) -> MlxHead:
    """Load a head strictly, to draft for `model`.  Raises CheckpointError or UsageError."""
    config = read_head_config(directory)
    require_fit(config, model.config, directory)
    sources = plan_head(directory, config)
    return MlxHead(Weights(sources, model.llama.dtype, Files(), mx.eval), config, model)
