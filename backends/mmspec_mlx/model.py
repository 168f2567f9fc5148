"""A loaded checkpoint that opens target and draft sequences."""

import mlx.core as mx

from mmspec.checkpoints.config import ModelConfig
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.seeing_model import SeeingModel
from mmspec.decoding.tree import Tree
from mmspec_mlx.device.weights import Weights
from mmspec_mlx.network.decoder import LanguageModel
from mmspec_mlx.network.vision import MlxFeatures, MlxTowerParts
from mmspec_mlx.sequence.branches import MlxBranches
from mmspec_mlx.sequence.target import MlxTarget


class MlxModel(SeeingModel[mx.array]):
    """Implements `mmspec.decoding.contract.Model`."""

    quantize, features = "none", MlxFeatures

    def __init__(self, weights: Weights, config: ModelConfig, device: str) -> None:
        self.device, self.language = device, LanguageModel(weights, config.text)
        super().__init__(config, self.language, MlxTowerParts(weights))

    def open_target(self, sampling: Sampling, exact: ExactRows | None = None) -> MlxTarget:
        """Open an empty target sequence."""
        cache = self.language.new_cache(rows=1)
        return MlxTarget(self.language, cache, self.place, sampling, exact)

    def open_branches(
        self,
        count: int,
        vocabulary: int,
        sampling: Sampling,
        tree: Tree | None = None,
        *,
        probabilities: bool = False,
    ) -> MlxBranches:
        """Open `count` empty sequences to draft with, for a target of `vocabulary` ids."""
        model = self.language, self.language.new_cache(count), self.place
        return MlxBranches(*model, count, vocabulary, sampling, tree, probabilities=probabilities)
