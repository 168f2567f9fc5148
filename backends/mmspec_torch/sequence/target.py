"""The target's sequence: plain decoding, and verification of drafts.

Shape letters: n rows fed or drafted, H width.
"""

from torch import Tensor

from mmspec.decoding.contents import Projection
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.feeding import Columns
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.target_sequence import TargetSequence
from mmspec_torch.network.decoder import LanguageModel
from mmspec_torch.sequence.executor import Executor


class TorchTarget(TargetSequence[Tensor]):
    """Implements `mmspec.decoding.contract.Target` and, for heads, `HiddenStates`."""

    def __init__(
        self,
        language: LanguageModel,
        place: Projection[Tensor],
        executor: Executor,
        sampling: Sampling,
        exact: ExactRows | None,
    ) -> None:
        """place: returns the rows [N, W] of an image's features."""
        self._executor = executor.target(self, is_exact=exact is not None)
        super().__init__(language, self._executor.cache, place, sampling, exact)

    def _forward(self, x: Tensor, columns: Columns) -> Tensor:
        return self._executor.feed(x, columns, self._row, self._captured_layers)
