"""A loaded checkpoint that opens target and draft sequences.

Shape letters: N visual positions of one image, W numbers of each: an embedding [H] first.
"""

from functools import cached_property

import mlx.core as mx

from mmspec.checkpoints.config import ModelConfig
from mmspec.decoding.contract import Features, Float32
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.families.grid import Grid
from mmspec.ground.errors import UsageError
from mmspec_mlx.device import device_io
from mmspec_mlx.device.weights import Weights
from mmspec_mlx.network.decoder import LanguageModel
from mmspec_mlx.network.vision import MlxFeatures, MlxTowerParts
from mmspec_mlx.sequence.branches import MlxBranches
from mmspec_mlx.sequence.target import MlxTarget


class MlxModel:
    """Implements `mmspec.decoding.contract.Model`."""

    quantize = "none"

    def __init__(self, weights: Weights, config: ModelConfig, device: str) -> None:
        self.config, self.device = config, device
        self.language = LanguageModel(weights, config.text)
        self._parts = MlxTowerParts(weights)
        vision = config.vision
        self._tower = vision.tower(self._parts, config.text) if vision else None

    @property
    def dtype(self) -> str:
        """The dtype of activations."""
        return str(self.language.dtype).removeprefix("mlx.core.")

    @cached_property
    def tower(self) -> str:
        """Digest of the tower's tensors, dtype and settings; '' without a tower."""
        return self._parts.digest(self._tower.settings) if self._tower else ""

    def encode(self, pixels: Float32, grid: Grid | None = None) -> MlxFeatures:
        """Run the tower on preprocessed pixels; see `mmspec.decoding.contract.Model.encode`."""
        if self._tower is None or self.config.vision is None:
            raise UsageError("this model is text-only: it cannot look at an image")
        rows = self._tower.encode(mx.array(pixels).astype(self.language.dtype))
        mx.eval(rows)
        return MlxFeatures(rows, grid or self.config.vision.grid(*pixels.shape[-2:]))

    def project(self, features: Features) -> Float32:
        """Return an image's rows [N, W] on the host.  Blocks."""
        return device_io.to_host(self.placed(features))

    def placed(self, features: Features) -> mx.array:
        """Return an image's rows [N, W]; UsageError for features that this model cannot read."""
        if self._tower is None or not isinstance(features, MlxFeatures):
            raise UsageError("these image features are not ones this model can read")
        projected: mx.array = self._tower.project(features.rows)
        return projected

    def open_target(self, sampling: Sampling, exact: ExactRows | None = None) -> MlxTarget:
        """Open an empty target sequence."""
        return MlxTarget(self.language, self.placed, sampling, exact)

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
        model = self.language, self.placed
        return MlxBranches(*model, count, vocabulary, sampling, tree, probabilities=probabilities)
