"""A loaded checkpoint, what it sees of images, and the sequences that it opens, for every backend.

Shape letters: N visual positions of one image, W numbers of each: an embedding [H] first.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from hashlib import sha256
from typing import Any, Generic

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.manifest import TOWER
from mmspec.decoding.branch_sequence import BranchSequence
from mmspec.decoding.contract import Features, Float32
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.language import Language
from mmspec.decoding.layers import LayerTensors
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.segment import GridFeatures
from mmspec.decoding.target_sequence import TargetSequence
from mmspec.decoding.tree import Tree
from mmspec.families.grid import Grid
from mmspec.families.tower import Array, cast
from mmspec.ground.arrays import A
from mmspec.ground.errors import UsageError


class CheckpointParts(ABC):
    """Implements `TowerParts` in part: takes tensors, and remembers the tower's for a digest."""

    def __init__(self, weights: LayerTensors[Any]) -> None:
        self._weights, self._tower = weights, list[Array]()
        self.silu = weights.framework.silu

    def digest(self, settings: str) -> str:
        """The SHA-256 of the tower's tensors, their type and its settings."""
        total = sha256(f"{self._weights.dtype} {settings}".encode())
        for tensor in self._tower:
            total.update(self._bytes(tensor))
        return total.hexdigest()

    def tensor(self, name: str, *shape: int) -> Array:  # noqa: ARG002
        """Take the tensor called `name`."""
        return self._remember(name, self._weights.tensor(name))[0]

    def _remember(self, path: str, *tensors: Array) -> tuple[Array, ...]:
        """Remember tensors for the digest if they are the tower's."""
        if path.startswith(TOWER):
            self._tower += tensors
        return tensors

    @abstractmethod
    def _bytes(self, tensor: Array) -> bytes | memoryview:
        """A tensor's bytes on the host.  Blocks."""


class Sequences(Generic[A]):
    """Opens the sequences of models, by their types; one that counts seconds is one model's own."""

    def __init__(
        self, target: type[TargetSequence[A]], branches: type[BranchSequence[A, Any]]
    ) -> None:
        self._target, self._branches = target, branches

    @property
    def setup_seconds(self) -> float:
        """Seconds so far spent once on shapes of rounds that recur, as for CUDA graphs."""
        return 0.0

    def target(self, *arguments: Any) -> TargetSequence[A]:
        """Open a target; arguments: those of `TargetSequence`, but for the cache."""
        return self._target(*arguments)

    def branches(self, *arguments: Any, probabilities: bool) -> BranchSequence[A, Any]:
        """Open branches; arguments: those of `BranchSequence`, but for the cache."""
        return self._branches(*arguments, probabilities=probabilities)


class SeeingModel(Generic[A]):
    """Implements `contract.Model` but for its device and quantization."""

    features: type[GridFeatures]
    """The backend's vision features, which its own models can read alone."""
    sequences: Sequences[A]

    def __init__(self, config: ModelConfig, language: Language[A], parts: Any) -> None:
        """parts: `TowerParts` and `CheckpointParts` for the tower, which takes what it needs."""
        self.config, self.language, self._parts = config, language, parts
        self._framework, self.dtype = language.framework, str(language.dtype).rpartition(".")[2]
        self._tower = config.vision.tower(parts, config.text) if config.vision else None

    @property
    def setup_seconds(self) -> float:
        """Seconds so far spent once on shapes of rounds that recur."""
        return self.sequences.setup_seconds

    @cached_property
    def tower(self) -> str:
        """Digest of the tower's tensors, dtype and settings; '' without a tower."""
        return str(self._parts.digest(self._tower.settings)) if self._tower else ""

    def encode(self, pixels: Float32, grid: Grid | None = None) -> Any:
        """Run the tower on preprocessed pixels; see `mmspec.decoding.contract.Model.encode`."""
        if self._tower is None or self.config.vision is None:
            raise UsageError("this model is text-only: it cannot look at an image")
        with self._framework.inference():
            x = cast(self._parts.xp, self._parts.upload(pixels), self.language.dtype)
            rows = self._tower.encode(x)
            self._framework.settle(rows)
        return self.features(rows, grid or self.config.vision.grid(*pixels.shape[-2:]))

    def project(self, features: Features) -> Float32:
        """An image's rows [N, W] on the host.  Blocks."""
        with self._framework.inference():
            return self._framework.to_host(self.place(features))

    def place(self, features: Features) -> A:
        """An image's rows [N, W]; UsageError for features that this model cannot read."""
        if self._tower is None or not isinstance(features, self.features):
            raise UsageError("these image features are not ones this model can read")
        rows: A = self._tower.project(features.rows)
        return rows

    def open_target(self, sampling: Sampling, exact: ExactRows | None = None) -> TargetSequence[A]:
        """Open an empty target sequence."""
        return self.sequences.target(self.language, self.place, sampling, exact)

    def open_branches(
        self,
        count: int,
        vocabulary: int,
        sampling: Sampling,
        tree: Tree | None = None,
        *,
        probabilities: bool = False,
    ) -> BranchSequence[A, Any]:
        """Open `count` empty sequences to draft with, for a target of `vocabulary` ids."""
        settings = count, vocabulary, sampling, tree
        model = self.language, self.place
        return self.sequences.branches(*model, *settings, probabilities=probabilities)
