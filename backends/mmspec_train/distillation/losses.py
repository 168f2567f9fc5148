"""Losses of distillation: the distance between a draft's distribution q and the target's p.

Shape letters: D depths, B sequences, A starts, L columns, H width, V vocabulary, n rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec_train.data.batch import Batch, gather_columns
from mmspec_train.distillation.acceptance import DraftStarts
from mmspec_train.settings import HeadMethodSettings


def divergence(name: str, p: Tensor, q: Tensor, targets: Tensor) -> Tensor:
    """Return the loss [n] of each row, from log-probabilities p, q [n, V] and targets [n].

    "kl" is Σ p log(p/q), "reverse-kl" Σ q log(q/p), "tv" ½ Σ |p - q|, and "ce" -log q(t) with t the
    token of the data; "ce" ignores p.
    """
    if name == "ce":
        return -q.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    if name == "tv":
        return (p.exp() - q.exp()).abs().sum(dim=-1) / 2
    first, second = (p, q) if name == "kl" else (q, p)
    return (first.exp() * (first - second)).sum(dim=-1)


def target_log_probabilities(batch: Batch, output_matrix: Tensor) -> Tensor:
    """Return the target's log-probabilities [n, V] after every learned column."""
    with torch.no_grad(), torch.autocast(output_matrix.device.type, enabled=False):
        return log_probabilities(batch.states[batch.learned], output_matrix)


def log_probabilities(features: Tensor, output_matrix: Tensor) -> Tensor:
    """Return the log-probabilities [n, V] of features [n, H]."""
    return F.linear(features.to(output_matrix.dtype), output_matrix).float().log_softmax(dim=-1)


@dataclass(frozen=True, slots=True)
class Output:
    """The tokens that a head drafts, and the distributions over them."""

    matrix: Tensor
    """[V, H] the target's output matrix."""
    head: Callable[[Tensor, Tensor], Tensor]
    """Function from features [n, H] and the matrix to the head's log-probabilities [n, d]."""
    ids: Tensor | None = None
    """[d] the tokens that the head can draft; None if it drafts all of them."""

    def of_target(self, batch: Batch) -> Tensor:
        """The target's log-probabilities [n, d] of these tokens after every learned column."""
        matrix = self.matrix if self.ids is None else self.matrix[self.ids]
        return target_log_probabilities(batch, matrix)

    def of_head(self, features: Tensor) -> Tensor:
        """The head's log-probabilities [n, d]."""
        return self.head(features, self.matrix)

    def likeliest(self, features: Tensor) -> Tensor:
        """The head's likeliest token of each feature [n, H]."""
        best = self.of_head(features).argmax(dim=-1)
        return best if self.ids is None else self.ids[best]


def head_loss(
    features: Tensor,
    batch: Batch,
    starts: DraftStarts,
    output: Output,
    method: HeadMethodSettings,
) -> Tensor:
    """Return the loss of features [D, B, A, H]: the mean over live starts, weighted by decay^depth.

    The loss of one guess is token_weight · divergence(p, q) + feature_weight · SmoothL1(feature,
    hidden state).
    """
    log_p, row = output.of_target(batch), batch.learned_row
    total, weights = features.new_zeros(()), 0.0
    for depth, guesses in enumerate(features):
        alive = starts.alive[depth]
        if not alive.any():
            break
        columns = starts.after(depth)
        live_guesses = guesses[alive]
        weight = method.decay**depth
        weights += weight
        if method.token_weight:
            p = log_p[row.gather(1, columns)[alive]]
            q = output.of_head(live_guesses)
            tokens = batch.targets.gather(1, columns)[alive]
            loss = divergence(method.loss, p, q, tokens).mean()
            total = total + weight * method.token_weight * loss
        if method.feature_weight:
            states = gather_columns(batch.states, columns)[alive]
            loss = F.smooth_l1_loss(live_guesses.float(), states)
            total = total + weight * method.feature_weight * loss
    return total / max(weights, 1e-9)


def noisy_states(batch: Batch, scale: float) -> Tensor:
    """Return hidden states [B, L, H] plus EAGLE's uniform noise of width scale · 512 / length."""
    noise = torch.rand_like(batch.states) - 0.5
    lengths = torch.tensor(batch.lengths, device=noise.device).view(-1, 1, 1)
    return batch.states + noise * (scale * 512 / lengths)
