"""Verifies a draft as a fixed sequence of kernels.

Shape letters: n rows fed, V vocabulary, H width.
"""

from torch import Tensor

from mmspec_torch.graphs.capture import Capture, Outputs
from mmspec_torch.graphs.static_form import Frame, send
from mmspec_torch.network.llama import Llama

ROWS = 128
"""The most rows that the static form feeds at once."""


class StaticTarget:
    """The static form of a target: a cache, and captured forwards over a token and a chain."""

    def __init__(self, llama: Llama, capture: Capture) -> None:
        self._frame = Frame(llama, 1, capture)
        self._numbers = self._frame.integers(2)
        self._drafted = self._frame.integers(ROWS)
        self.cache = self._frame.cache

    def feed(self, token: int, drafted: Tensor | None, start: int) -> tuple[Tensor, Tensor, Tensor]:
        """Feed `token` at column `start`, then the drafted ids [n - 1]; None without a draft.

        Returns logits [n, V], hidden states [n, H] and the embeddings [n, H] that were fed.
        """
        rows = 1 if drafted is None else 1 + len(drafted)
        width = self._frame.reach(start + rows)
        send((start, token), self._numbers)
        if drafted is not None:
            self._drafted[: rows - 1].copy_(drafted)
        key = rows, width
        logits, states, embeddings = self._frame.run(key, lambda: self._forward(rows, width))
        return logits, states, embeddings

    def _forward(self, rows: int, width: int) -> Outputs:
        frame, llama = self._frame, self._frame.llama
        ids = self._numbers.new_empty(rows)
        ids[:1].copy_(self._numbers[1:])
        ids[1:].copy_(self._drafted[: rows - 1])
        columns = self._numbers[:1] + frame.count(rows)
        x = llama.embed(ids)
        step = frame.step(width, columns, columns.unsqueeze(0))
        states = llama.states(llama.forward(x.clone(), step))
        return llama.project(states), states, x
