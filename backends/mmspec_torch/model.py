"""A loaded checkpoint that opens target and draft sequences."""

from torch import Tensor

from mmspec.checkpoints.config import ModelConfig
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.seeing_model import SeeingModel
from mmspec.decoding.tree import Tree
from mmspec_torch.device.weights import Weights
from mmspec_torch.graphs.executor import CudaGraphs, ReplayedExecutor
from mmspec_torch.network.decoder import LanguageModel
from mmspec_torch.network.vision import TorchFeatures, TorchTowerParts
from mmspec_torch.sequence.branches import TorchBranches
from mmspec_torch.sequence.executor import Executor
from mmspec_torch.sequence.target import TorchTarget


class TorchModel(SeeingModel[Tensor]):
    """Implements `mmspec.decoding.contract.Model`."""

    features = TorchFeatures

    def __init__(self, weights: Weights, config: ModelConfig) -> None:
        self.quantize = weights.scheme.name if weights.scheme else "none"
        self.language = LanguageModel(weights, config.text)
        super().__init__(config, self.language, TorchTowerParts(weights))
        self.executor = Executor(self.language)
        device = weights.device
        if device.type == "cuda" and config.text.delta_net is None:  # graphs have no states
            self.executor = ReplayedExecutor(self.language, CudaGraphs(device))

    @property
    def setup_seconds(self) -> float:
        """Seconds in which graphs were captured."""
        return self.executor.setup_seconds

    @property
    def device(self) -> str:
        """The device's name in PyTorch."""
        return str(self.language.device)

    def open_target(self, sampling: Sampling, exact: ExactRows | None = None) -> TorchTarget:
        """Open an empty target sequence."""
        return TorchTarget(self.language, self.place, self.executor, sampling, exact)

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
        model = self.language, self.place, self.executor
        return TorchBranches(*model, count, vocabulary, sampling, tree, probabilities=probabilities)
