"""Validation: how much of a head's or draft's guesses a greedy target would keep.

Nothing is decoded. As long as a chain's guesses are right, the tokens fed to the draft are those
of the target's own greedy answer; so what it guesses at each depth along that answer tells how
many tokens would be kept from every start, and walking from start to start gives the rounds.

Shape letters: D depths, B sequences, A starts.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mmspec_torch.train.distill.loss import said, truth
from mmspec_torch.train.exam import Mark
from mmspec_torch.train.heads.lesson import Lesson, Starts


@dataclass
class Score:
    """Counts over held-out answers."""

    tokens: int = 0
    rounds: int = 0
    tried: list[int] = field(default_factory=list)
    """[D] starts whose guess at a depth can be judged."""
    agreed: list[int] = field(default_factory=list)
    """[D] those where it is what the target would say."""
    kept: list[int] = field(default_factory=list)
    """[D] those where it and all guesses before it are."""

    @property
    def tokens_per_round(self) -> float:
        """Tokens that a round of D guesses yields, the target's own included."""
        return self.tokens / max(1, self.rounds)

    @property
    def agreement(self) -> list[float]:
        """[D] the share of guesses at each depth that are right, the right tokens fed."""
        return [a / max(1, t) for a, t in zip(self.agreed, self.tried, strict=True)]

    @property
    def acceptance(self) -> list[float]:
        """[D] the share of starts from which so many guesses are kept."""
        return [k / max(1, t) for k, t in zip(self.kept, self.tried, strict=True)]

    def mark(self) -> Mark:
        """For the training loop: the more tokens per round, the better."""
        numbered = enumerate(self.agreement, start=1)
        shares = {f"agreement {depth}": share for depth, share in numbered}
        return Mark(self.tokens_per_round, {"tokens per round": self.tokens_per_round} | shares)

    def add(self, agree: Tensor, starts: Starts) -> None:
        """Count a batch: agree [D, B, A] of starts' guesses that the target would make too."""
        right = agree & starts.alive[: len(agree)]
        kept = right.cumprod(dim=0).bool()
        alive = starts.alive[: len(agree)]
        for counts, each in ((self.tried, alive), (self.agreed, right), (self.kept, kept)):
            counts += [0] * (len(agree) - len(counts))
            for depth, count in enumerate(each.flatten(1).sum(dim=1).tolist()):
                counts[depth] += count
        self._walk(kept.sum(dim=0), starts)

    def _walk(self, lengths: Tensor, starts: Starts) -> None:
        """Count the rounds that answers take; lengths [B, A] guesses are kept from each start."""
        real = starts.alive[0]
        for row, flags in enumerate(real):
            columns, kept = (part[row][flags].tolist() for part in (starts.columns, lengths))
            self.tokens += len(columns)
            self.rounds += sum(1 for _ in rounds(columns, kept))


def rounds(columns: Sequence[int], kept: Sequence[int]) -> Iterator[int]:
    """Yield the columns after which rounds begin, of all that one could, and the guesses kept.

    One could begin before every token of an answer, its end included; a round yields what it
    keeps and one token more.
    """
    at = 0
    while at < len(columns):
        yield columns[at]
        at = bisect_left(columns, columns[at] + kept[at] + 1, lo=at + 1)


def judged(score: Score, features: Tensor, lesson: Lesson, starts: Starts, output: Tensor) -> None:
    """Count the guesses that features [D, B, A, H] make."""
    known = truth(lesson, output)
    best = known.log_p.argmax(dim=-1)
    agree = [
        said(guesses.flatten(0, 1), output).argmax(dim=-1).view(starts.columns.shape)
        == best[known.row.gather(1, starts.after(depth)).clamp(min=0)]
        for depth, guesses in enumerate(features)
    ]
    score.add(torch.stack(agree), starts)
