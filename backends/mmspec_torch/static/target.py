"""Verification as a fixed sequence of kernels.

Shape letters: n rows fed, V vocabulary, H width.
"""

from torch import Tensor

from mmspec_torch.llama import Llama
from mmspec_torch.static.capture import Capture, Outputs
from mmspec_torch.static.frame import Frame, send

ROWS = 128
"""The most rows that are fed so."""


class StaticTarget:
    """One sequence's cache, and forwards over its last token and a chain after it."""

    def __init__(self, llama: Llama, capture: Capture) -> None:
        """Start with an empty cache."""
        self._frame = Frame(llama, 1, capture)
        self._numbers = self._frame.integers(2)
        self._drafted = self._frame.integers(ROWS)
        self.cache = self._frame.cache

    def feed(self, token: int, drafted: Tensor | None, start: int) -> tuple[Tensor, Tensor, Tensor]:
        """Feed `token` to column `start` and ids [n - 1] after it.

        Returns logits [n, V], hidden states [n, H] and the embeddings [n, H] that were fed.
        """
        rows = 1 if drafted is None else 1 + len(drafted)
        width = self._frame.reach(start + rows)
        send((start, token), self._numbers)
        if drafted is not None:
            self._drafted[: rows - 1].copy_(drafted)
        outputs = self._frame.run((rows, width), lambda: self._forward(rows, width))
        logits, states, embeddings = (each for each in outputs if each is not None)
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
