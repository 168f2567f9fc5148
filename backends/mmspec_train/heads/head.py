"""A head to train.

Shape letters: B sequences, A starts, D depths, H width, n rows, V vocabulary, d tokens that the
head can draft.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch.nn.functional as F
from torch import Tensor, nn

from mmspec.checkpoints.head_config import HeadConfig
from mmspec_train.data.batch import Batch, gather_columns
from mmspec_train.data.teacher import Teacher
from mmspec_train.distillation.objective import (
    DraftStarts,
    divergence,
    log_probabilities,
    target_log_probabilities,
)
from mmspec_train.settings import HeadMethodSettings


class Head(nn.Module, ABC):
    """A module whose guesses are learned from a target."""

    config: HeadConfig
    matrix: Tensor
    """[V, H] the target's output matrix, or [d, H] the rows of an EAGLE-3 head's tokens."""

    def begin(self, teacher: Teacher, answers: Iterable[int]) -> None:
        """Copy from the target what no training changes; answers: the tokens to be learned."""

    @abstractmethod
    def forward(self, batch: Batch, starts: DraftStarts) -> Tensor:
        """Return features [D, B, A, ...] of the guesses after the answer's own tokens."""

    def log_probabilities(self, features: Tensor) -> Tensor:
        """Return the log-probabilities [n, d] of features [n, ...]."""
        return log_probabilities(features, self.matrix)

    def of_target(self, batch: Batch) -> Tensor:
        """Return the target's log-probabilities [n, d] after every column with a loss."""
        return target_log_probabilities(batch, self.matrix)

    def likeliest(self, features: Tensor) -> Tensor:
        """Return the likeliest token of each feature."""
        return self.log_probabilities(features).argmax(dim=-1)

    def loss(
        self, features: Tensor, batch: Batch, starts: DraftStarts, method: HeadMethodSettings
    ) -> Tensor:
        """Return the loss of features [D, B, A, H]: the mean over live starts, times decay^depth.

        The loss of one guess is token_weight · divergence(p, q) + feature_weight ·
        SmoothL1(feature, hidden state).
        """
        log_p, rows = self.of_target(batch), starts.loss_rows(batch)
        total, weights = features.new_zeros(()), 0.0
        for depth, (alive, columns) in enumerate(zip(starts.alive, starts.after, strict=True)):
            if not alive.any():
                break
            live, weight = features[depth][alive], method.decay**depth
            weights += weight
            if method.token_weight:
                p, q = log_p[rows[depth][alive]], self.log_probabilities(live)
                tokens = batch.targets.gather(1, columns)[alive]
                loss = divergence(method.loss, p, q, tokens).mean()
                total = total + weight * method.token_weight * loss
            if method.feature_weight:
                states = gather_columns(batch.states, columns)[alive]
                loss = F.smooth_l1_loss(live.float(), states)
                total = total + weight * method.feature_weight * loss
        return total / max(weights, 1e-9)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the head's checkpoint by name."""
        return self.state_dict()


def zero_linear(width: int, *, bias: bool = True) -> nn.Linear:
    """Return a linear layer from H numbers to H, which are zero before training."""
    layer = nn.Linear(width, width, bias)
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer
