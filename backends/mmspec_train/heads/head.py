"""A head to train.

Shape letters: B sequences, A starts, D depths, H width, n rows, V vocabulary, d tokens that the
head can draft.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial

from torch import Tensor, nn

from mmspec.checkpoints.head_config import HeadConfig
from mmspec_train.data.batch import Batch
from mmspec_train.data.teacher import Teacher
from mmspec_train.distillation.objective import DraftStarts, HeadOutput, log_probabilities


class Head(nn.Module, ABC):
    """A module whose guesses are learned from a target."""

    config: HeadConfig

    def begin(self, teacher: Teacher, answers: Iterable[int]) -> None:
        """Copy from the target what no training changes; answers: the tokens to be learned."""

    @abstractmethod
    def forward(self, batch: Batch, starts: DraftStarts) -> Tensor:
        """Return features [D, B, A, ...] of the guesses after the answer's own tokens."""

    def log_probabilities(self, features: Tensor, output_matrix: Tensor) -> Tensor:
        """Return the log-probabilities [n, d] of features [n, ...]; output_matrix: [V, H]."""
        return log_probabilities(features, output_matrix)

    def output(self, matrix: Tensor) -> HeadOutput:
        """How features, and states of the target with this output matrix, become tokens."""
        return HeadOutput(matrix, partial(self.log_probabilities, output_matrix=matrix))

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the head's checkpoint by name."""
        return self.state_dict()
