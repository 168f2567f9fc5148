"""Heads from their directories."""

from pathlib import Path

import mlx.core as mx

from mmspec.errors import CheckpointError, UsageError
from mmspec.heads.config import HeadConfig, read_head_config, require_fit
from mmspec.heads.drafter import HeadDrafter
from mmspec.heads.manifest import plan_head
from mmspec.heads.outline import Outline
from mmspec.sampling import Sampling
from mmspec.seam import Target
from mmspec.tree import Tree
from mmspec_mlx.heads.forwards import Forwards, LayeredForwards, SlottedForwards
from mmspec_mlx.heads.modules import Layered, Slotted
from mmspec_mlx.llava import MlxModel
from mmspec_mlx.target import MlxTarget
from mmspec_mlx.weights import Files, Weights


class MlxHead:
    """See `mmspec.seam.Head`."""

    def __init__(self, weights: Weights, config: HeadConfig, model: MlxModel) -> None:
        """Take every tensor; raises CheckpointError where some are left."""
        self.config = config
        self._model = model
        layer = config.layer
        self._parts = Layered(weights, config, layer) if layer else Slotted(weights, config)
        if weights.unused():
            raise CheckpointError(f"a {config.kind} head does not use {weights.unused()[0]}")

    def open_drafter(
        self, target: Target, sampling: Sampling, tree: Tree | None = None
    ) -> HeadDrafter:
        """Start an empty sequence beside `target`, which keeps its hidden states from now on."""
        if not isinstance(target, MlxTarget):
            raise UsageError(f"a head on MLX cannot read a {type(target).__name__}")
        config = self.config
        outline = Outline(apart=config.kind in ("msd", "flash"), packed=config.queries)
        image = self._model.config.image_token_id
        return HeadDrafter(self._forwards(target, sampling, tree), outline, image, config.slots)

    def _forwards(self, target: MlxTarget, sampling: Sampling, tree: Tree | None) -> Forwards:
        llama = self._model.llama
        if isinstance(self._parts, Layered):
            return LayeredForwards(self._parts, llama, target, sampling, tree)
        return SlottedForwards(self._parts, llama, target, sampling, tree)


def load_head(directory: Path, model: MlxModel) -> MlxHead:
    """Load a head strictly, to draft for `model`.  Raises CheckpointError or UsageError."""
    config = read_head_config(directory)
    require_fit(config, model.config, directory)
    sources = plan_head(directory, config)
    return MlxHead(Weights(sources, model.llama.dtype, Files(), mx.eval), config, model)
