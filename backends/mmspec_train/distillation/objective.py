"""The starts of drafts in a batch, divergences of their guesses, and how many are accepted.

No decoding is needed for the acceptance. While the guesses of a chain are right, the draft reads
the tokens of the target's own greedy answer. So its guesses along that answer give the number of
tokens accepted from every start, and stepping from start to start gives the rounds.

Shape letters: B sequences, L columns, A starts, D depths, n columns with a loss, or rows, H
width, V vocabulary; p is the target's distribution, q the draft's.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec_train.data.batch import NO_TARGET, Batch


@dataclass(frozen=True, slots=True)
class DraftStarts:
    """The columns after which drafts begin.

    At start c a head reads the hidden states before column c and the token at c. Its guess at
    depth d (from 0) is the token after column c + d.
    """

    columns: Tensor
    """[B, A] the column after which each draft begins."""
    alive: Tensor
    """[D, B, A] True where the answer reaches this depth, so that the guess can be judged."""

    @property
    def depth(self) -> int:
        """D, the number of depths that are judged."""
        return len(self.alive)

    @property
    def before(self) -> Tensor:
        """The columns [B, A] before those of the starts."""
        return (self.columns - 1).clamp(min=0)

    @property
    def after(self) -> Tensor:
        """The columns [D, B, A] before the guesses; 0 where the answer has ended."""
        depths = torch.arange(self.depth, device=self.alive.device).view(-1, 1, 1)
        return torch.where(self.alive, self.columns + depths, 0)

    def restrict(self, batch: Batch) -> Batch:
        """Return the batch with a loss only at the columns that drafts reach."""
        columns = self.after.transpose(0, 1).flatten(1)
        # Column 0, where `after` is dead, is reached by none: nothing is drafted from there.
        has_loss = torch.zeros_like(batch.has_loss).scatter(1, columns, value=True)
        has_loss[:, 0] = False
        return replace(batch, targets=batch.targets.where(has_loss, NO_TARGET))

    def loss_rows(self, batch: Batch) -> Tensor:
        """Return the number [D, B, A] of each guess's column among those of a batch with a loss."""
        numbers = batch.has_loss.flatten().cumsum(0).view(batch.ids.shape) - 1
        return numbers.expand(self.depth, -1, -1).gather(2, self.after).clamp(min=0)


def all_starts(batch: Batch, depth: int) -> DraftStarts:
    """All starts in the answers of a batch, for drafts of `depth` tokens."""
    begins = batch.has_loss & ~batch.visual
    begins[:, 0] = False
    count = max(1, int(begins.sum(dim=1).max()))
    columns = begins.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :count]
    alive, has_loss = [begins.gather(1, columns)], F.pad(batch.has_loss, (0, depth))
    for distance in range(1, depth):
        alive.append(alive[-1] & has_loss.gather(1, columns + distance))
    return DraftStarts(columns, torch.stack(alive))


def draw_starts(starts: DraftStarts, count: int) -> DraftStarts:
    """Draw at most `count` of each sequence's starts; they stay in ascending order."""
    draws = torch.rand(starts.columns.shape, device=starts.columns.device)
    draws = draws.masked_fill(~starts.alive[0], 2.0)  # starts that are none come last
    indices = draws.argsort(dim=1)[:, :count].sort(dim=1).values
    alive = starts.alive.gather(2, indices.expand(starts.depth, -1, -1))
    return DraftStarts(starts.columns.gather(1, indices), alive)


@dataclass
class DraftScore:
    """Counts of guesses that a greedy target would accept, over held-out answers."""

    tokens: int = 0
    rounds: int = 0
    guesses: Counter[int] = field(default_factory=Counter)
    """Number of starts with a guess to judge, by depth."""
    hits: Counter[int] = field(default_factory=Counter)
    """Number of starts whose guess is the target's token, by depth."""

    @property
    def tokens_per_round(self) -> float:
        """Mean tokens per round of D guesses, the target's own token included."""
        return self.tokens / max(1, self.rounds)

    @property
    def agreement(self) -> list[float]:
        """[D] share of right guesses at each depth, if all tokens before are the target's."""
        return [self.hits[depth] / max(1, count) for depth, count in self.guesses.items()]

    def figures(self) -> dict[str, float]:
        """Return the tokens per round and the agreement at each depth, by name."""
        shares = {f"agreement {depth}": s for depth, s in enumerate(self.agreement, start=1)}
        return {"tokens per round": self.tokens_per_round} | shares

    def add(self, agree: Tensor, starts: DraftStarts) -> None:
        """Count a batch; agree [D, B, A] is True where a guess is the target's token."""
        alive, is_hit = starts.alive, agree & starts.alive
        for counter, flags in (self.guesses, alive), (self.hits, is_hit):
            counter.update(dict(enumerate(flags.flatten(1).sum(dim=1).tolist())))
        lengths = is_hit.cumprod(dim=0).sum(dim=0)  # the number of guesses accepted from each start
        for row, is_start in enumerate(starts.alive[0]):
            columns, counts = (part[row][is_start].tolist() for part in (starts.columns, lengths))
            self.tokens += len(columns)
            start = 0
            while start < len(columns):  # a round has the accepted guesses and one more token
                self.rounds += 1
                start = bisect_left(columns, columns[start] + counts[start] + 1, lo=start + 1)


def divergence(name: str, p: Tensor, q: Tensor, targets: Tensor) -> Tensor:
    """Return the loss [n] of each row, from log-probabilities p, q [n, V] and targets [n].

    "kl" is Σ p log(p/q), and "ce" -log q(t) with t the token of the data.
    """
    if name == "ce":
        return -q.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (p.exp() * (p - q)).sum(dim=-1)


def target_log_probabilities(batch: Batch, output_matrix: Tensor) -> Tensor:
    """Return the target's log-probabilities [n, V] after every column with a loss."""
    with torch.no_grad(), torch.autocast(output_matrix.device.type, enabled=False):
        return log_probabilities(batch.states[batch.has_loss], output_matrix)


def log_probabilities(features: Tensor, output_matrix: Tensor) -> Tensor:
    """Return the log-probabilities [n, V] of features [n, H]."""
    return F.linear(features.to(output_matrix.dtype), output_matrix).float().log_softmax(dim=-1)
