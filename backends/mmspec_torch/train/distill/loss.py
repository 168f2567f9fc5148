"""Losses of distillation: how far the student's distribution q is from the target's p.

Shape letters: D depths, B sequences, A starts, L columns, H width, V vocabulary, n rows.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec import errors
from mmspec_torch.train.heads.lesson import Lesson, Starts

DIVERGENCES = ("kl", "reverse-kl", "tv", "ce")


@dataclass(frozen=True, slots=True)
class Loss:
    """token · divergence(p, q) + feature · SmoothL1(f, h), deeper guesses weighted less."""

    divergence: str = "kl"
    """One of DIVERGENCES; "ce" is of the data's own tokens, whatever the target says."""
    token: float = 1.0
    feature: float = 0.0
    decay: float = 0.8
    """The weight of each depth relative to the one before it."""

    def __post_init__(self) -> None:
        """Refuse what is not a loss."""
        if self.divergence not in DIVERGENCES:
            raise errors.choice("loss", self.divergence, DIVERGENCES)


def divergence(name: str, p: Tensor, q: Tensor, targets: Tensor) -> Tensor:
    """Return one number [n] per row for log-probabilities p, q [n, V] and targets [n].

    "kl" is Σ p log(p/q), "reverse-kl" Σ q log(q/p), "tv" ½ Σ |p - q|, which is the probability
    that a token drawn from q is rejected, and "ce" -log q(target).
    """
    if name == "ce":
        return -q.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    if name == "tv":
        return (p.exp() - q.exp()).abs().sum(dim=-1) / 2
    first, second = (p, q) if name == "kl" else (q, p)
    return (first.exp() * (first - second)).sum(dim=-1)


@dataclass(frozen=True, slots=True)
class Truth:
    """What the target says after every learned column."""

    log_p: Tensor
    """[n, V]"""
    row: Tensor
    """[B, L] the row of each learned column."""


def truth(lesson: Lesson, output: Tensor) -> Truth:
    """Apply the output matrix [V, H] once to every learned column."""
    with torch.no_grad(), torch.autocast(output.device.type, enabled=False):
        log_p = said(lesson.states[lesson.learned], output)
    row = lesson.learned.flatten().cumsum(0).view(lesson.learned.shape) - 1
    return Truth(log_p, row)


def said(features: Tensor, output: Tensor) -> Tensor:
    """Log-probabilities [n, V] of features [n, H]."""
    return F.linear(features.to(output.dtype), output).float().log_softmax(dim=-1)


def head_loss(
    features: Tensor, lesson: Lesson, starts: Starts, output: Tensor, loss: Loss
) -> Tensor:
    """Return the mean loss over the starts that are alive, depths weighted by decay^d."""
    known = truth(lesson, output)
    total, weights = features.new_zeros(()), 0.0
    for depth, guesses in enumerate(features):
        alive = starts.alive[depth]
        if not alive.any():
            break
        columns = starts.after(depth)
        some = guesses[alive]
        weight = loss.decay**depth
        weights += weight
        if loss.token:
            p = known.log_p[known.row.gather(1, columns)[alive]]
            targets = lesson.targets.gather(1, columns)[alive]
            q = said(some, output)
            total = total + weight * loss.token * divergence(loss.divergence, p, q, targets).mean()
        if loss.feature:
            wanted = lesson.at(lesson.states, columns)[alive]
            total = total + weight * loss.feature * F.smooth_l1_loss(some.float(), wanted)
    return total / max(weights, 1e-9)


def noisy(lesson: Lesson, scale: float) -> Tensor:
    """Hidden states [B, L, H] with EAGLE's noise: uniform of width scale · 512 / length."""
    noise = torch.rand_like(lesson.states) - 0.5
    lengths = torch.tensor(lesson.lengths, device=noise.device).view(-1, 1, 1)
    return lesson.states + noise * (scale * 512 / lengths)
