"""A loaded checkpoint that opens target and draft sequences."""

import torch

from mmspec.checkpoints.config import ModelConfig
from mmspec.decoding.adaptive_weights import Adaptation
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec_torch.graphs.pool import Statics
from mmspec_torch.network.llava import Llava
from mmspec_torch.sequence.drafter import TorchDrafter
from mmspec_torch.sequence.target import TorchTarget
from mmspec_torch.weights import Weights


class TorchModel(Llava):
    """Implements `mmspec.seam.InspectableModel`."""

    def __init__(
        self, weights: Weights, config: ModelConfig, device: torch.device, dtype: torch.dtype
    ) -> None:
        super().__init__(weights, config, device, dtype)
        self.statics = Statics(self.llama)

    def open_target(self, sampling: Sampling, exact: ExactRows | None = None) -> TorchTarget:
        """Open an empty target sequence."""
        return TorchTarget(self, self.statics, sampling, exact)

    def open_drafter(
        self,
        branches: int,
        vocabulary: int,
        sampling: Sampling,
        adaptation: Adaptation | None = None,
        tree: Tree | None = None,
    ) -> TorchDrafter:
        """Open an empty draft sequence with `branches` rows, for a target of `vocabulary` ids."""
        sequences = self, self.statics
        return TorchDrafter(*sequences, branches, vocabulary, sampling, adaptation, tree)
