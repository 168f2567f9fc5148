"""A loaded checkpoint that opens target and draft sequences.

Shape letters: N visual positions of one image, W numbers of each: an embedding [H] first.
"""

from functools import cached_property

import torch
from torch import Tensor

from mmspec.checkpoints.config import ModelConfig
from mmspec.decoding.contract import Features, Float32
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.families.grid import Grid
from mmspec.ground.errors import UsageError
from mmspec_torch.device.device_io import to_host
from mmspec_torch.device.weights import Weights
from mmspec_torch.graphs.capture import CudaGraphs
from mmspec_torch.graphs.executor import ReplayedExecutor
from mmspec_torch.network.decoder import LanguageModel
from mmspec_torch.network.vision import TorchFeatures, TorchTowerParts
from mmspec_torch.sequence.branches import TorchBranches
from mmspec_torch.sequence.executor import Executor
from mmspec_torch.sequence.target import TorchTarget


class TorchModel:
    """Implements `mmspec.decoding.contract.Model`."""

    def __init__(self, weights: Weights, config: ModelConfig) -> None:
        self.config = config
        self.quantize = weights.scheme.name if weights.scheme else "none"
        self.language = LanguageModel(weights, config.text)
        self._parts = TorchTowerParts(weights)
        vision = config.vision
        self._tower = vision.tower(self._parts, config.text) if vision else None
        self.executor = Executor(self.language)
        device = weights.device
        if device.type == "cuda" and config.text.delta_net is None:  # graphs have no states
            self.executor = ReplayedExecutor(self.language, CudaGraphs(device))

    @property
    def device(self) -> str:
        """The device's name in PyTorch."""
        return str(self.language.device)

    @property
    def dtype(self) -> str:
        """The dtype of activations."""
        return str(self.language.dtype).removeprefix("torch.")

    @cached_property
    def tower(self) -> str:
        """Digest of the tower's tensors, dtype and settings; '' without a tower."""
        return self._parts.digest(self._tower.settings) if self._tower else ""

    @torch.inference_mode()
    def encode(self, pixels: Float32, grid: Grid | None = None) -> TorchFeatures:
        """Run the tower on preprocessed pixels; see `mmspec.decoding.contract.Model.encode`."""
        if self._tower is None or self.config.vision is None:
            raise UsageError("this model is text-only: it cannot look at an image")
        rows = self._tower.encode(
            torch.tensor(pixels).to(self.language.device, self.language.dtype)
        )
        return TorchFeatures(rows, grid or self.config.vision.grid(*pixels.shape[-2:]))

    @torch.inference_mode()
    def project(self, features: Features) -> Float32:
        """Return an image's rows [N, W] on the host."""
        return to_host(self.placed(features))

    def placed(self, features: Features) -> Tensor:
        """Return an image's rows [N, W]; UsageError for features that this model cannot read."""
        if self._tower is None or not isinstance(features, TorchFeatures):
            raise UsageError("these image features are not ones this model can read")
        rows = features.rows.to(self.language.device, self.language.dtype)
        projected: Tensor = self._tower.project(rows)
        return projected

    def open_target(self, sampling: Sampling, exact: ExactRows | None = None) -> TorchTarget:
        """Open an empty target sequence."""
        return TorchTarget(self.language, self.placed, self.executor, sampling, exact)

    def open_branches(
        self,
        count: int,
        vocabulary: int,
        sampling: Sampling,
        tree: Tree | None = None,
        *,
        probabilities: bool = False,
    ) -> TorchBranches:
        """Open `count` empty sequences to draft with, for a target of `vocabulary` ids."""
        model = self.language, self.placed, self.executor
        return TorchBranches(*model, count, vocabulary, sampling, tree, probabilities=probabilities)
