"""A loaded checkpoint that opens target and draft sequences."""

from mmspec.decoding.adaptive_weights import Adaptation
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec_mlx.network.llava import Llava
from mmspec_mlx.sequence.drafter import MlxDrafter
from mmspec_mlx.sequence.target import MlxTarget


class MlxModel(Llava):
    """Implements `mmspec.seam.InspectableModel`."""

    def open_target(self, sampling: Sampling, exact: ExactRows | None = None) -> MlxTarget:
        """Open an empty target sequence."""
        return MlxTarget(self, sampling, exact)

    def open_drafter(
        self,
        branches: int,
        vocabulary: int,
        sampling: Sampling,
        adaptation: Adaptation | None = None,
        tree: Tree | None = None,
    ) -> MlxDrafter:
        """Open an empty draft sequence with `branches` rows, for a target of `vocabulary` ids."""
        return MlxDrafter(self, branches, vocabulary, sampling, adaptation, tree)
