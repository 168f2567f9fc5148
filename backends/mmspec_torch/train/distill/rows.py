"""Many sequences in one forward: columns are shared, each row's own padding is seen by none.

Shape letters: R rows, n columns fed, C columns so far, H width, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec_torch.cache import Span
from mmspec_torch.device import upload
from mmspec_torch.llama import Llama, Step, hidden

Choose = Callable[[Tensor], Tensor]
"""From logits [R, V] to tokens [R]."""


def likeliest(logits: Tensor) -> Tensor:
    """Greedy decoding."""
    return logits.argmax(dim=-1)


def sampled(temperature: float, seed: int) -> Choose:
    """Decoding by chance, the same for the same seed."""
    chance = torch.Generator().manual_seed(seed)

    def choose(logits: Tensor) -> Tensor:
        shares = (logits.float() / temperature).softmax(dim=-1).cpu()
        return shares.multinomial(1, generator=chance).flatten().to(logits.device)

    return choose


class Rows:
    """R sequences fed together."""

    def __init__(self, llama: Llama, rows: int) -> None:
        """Start empty."""
        self._llama, self._cache = llama, llama.new_cache(rows)
        self._seen = torch.zeros(rows, 0, dtype=torch.bool, device=llama.device)
        self._lengths = [0] * rows

    def feed(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """Feed embeddings [R, n, H], of each row the first `counts`; returns states [R, n, H]."""
        rows, width = x.shape[:2]
        start, end = self._seen.shape[1], self._seen.shape[1] + width
        fed = torch.arange(width, device=x.device) < upload(counts, torch.long, x.device)[:, None]
        self._seen = torch.cat((self._seen, fed), dim=1)
        positions = [[length + n for n in range(width)] for length in self._lengths]
        step = Step(
            self._llama.rotary.at(positions),
            Span(self._cache, start, end),
            self._mask(start, x) if start else None,
            causal=not start,
        )
        out = self._llama.forward(x.reshape(rows * width, -1), step)
        self._lengths = [a + b for a, b in zip(self._lengths, counts, strict=True)]
        return self._llama.states(out).view(rows, width, -1)

    def _mask(self, start: int, x: Tensor) -> Tensor:
        """[R, 1, n, C] of columns that are fed and not after the one that looks."""
        width = x.shape[1]
        causal = torch.ones(width, width, dtype=torch.bool, device=x.device).tril()
        seen = self._seen.unsqueeze(1) & F.pad(causal, (start, 0), value=True)
        return x.new_zeros(seen.shape).masked_fill_(~seen, hidden(x.dtype)).unsqueeze(1)


@dataclass
class Answering:
    """Answers under way: what was said, and what is to be kept of every column fed."""

    rows: Rows
    llama: Llama
    stop: frozenset[int]
    choose: Choose
    states: list[Tensor]
    counts: list[list[int]]

    def ask(self, prompts: Tensor, lengths: Sequence[int], budget: int) -> list[list[int]]:
        """Feed prompts [R, n, H] and return an answer to each that is not empty."""
        last = self._fed(prompts, lengths)
        said: list[list[int]] = [[] for _ in lengths]
        live = [bool(length) for length in lengths]
        for _ in range(budget):
            tokens = self.choose(self.llama.project(last))
            for row, token in enumerate(tokens.tolist()):
                if live[row]:
                    said[row].append(token)
                    live[row] = token not in self.stop
            if not any(live):
                break
            last = self._fed(self.llama.embed(tokens).unsqueeze(1), [int(each) for each in live])
        return said

    def _fed(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """The states [R, H] of the last column that each row was fed, of none the first."""
        states = self.rows.feed(x, counts)
        self.states.append(states)
        self.counts.append(list(counts))
        ends = upload([max(count, 1) - 1 for count in counts], torch.long, x.device)
        return states[torch.arange(len(ends), device=x.device), ends]

    def kept(self, row: int) -> Tensor:
        """States [n, H] of all that a row was fed, in order."""
        parts = zip(self.states, self.counts, strict=True)
        return torch.cat([states[row, : counts[row]] for states, counts in parts])
