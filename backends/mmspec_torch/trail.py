"""What a target keeps of its columns where a head reads it.

Shape letters: n columns, H width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mmspec_torch.cache import STEP
from mmspec_torch.device import upload
from mmspec_torch.llama import Llama


class Rows:
    """One row [H] per column; which of them count, their owner knows, as with a cache."""

    def __init__(self, like: Llama) -> None:
        """Start without memory."""
        shape = 0, like.config.hidden_size
        self._rows = torch.empty(shape, device=like.device, dtype=like.dtype)

    def write(self, start: int, rows: Tensor) -> None:
        """Keep rows [n, H] of the columns from `start` on."""
        end = start + len(rows)
        if end > len(self._rows):
            self._grow(end)
        self._rows[start:end] = rows

    def read(self, start: int, stop: int) -> Tensor:
        """The rows [n, H] of columns; a view, not to be written to."""
        return self._rows[start:stop]

    @torch.inference_mode()
    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Copy m columns to where those from `start` on are; the columns ascend, none before it."""
        chosen = upload(columns, torch.int64, self._rows.device)
        self._rows[start : start + len(columns)] = self._rows.index_select(0, chosen)

    def _grow(self, end: int) -> None:
        wider = self._rows.new_empty(-(-end // STEP) * STEP, self._rows.shape[1])
        wider[: len(self._rows)] = self._rows
        self._rows = wider


class Trail:
    """Hidden states after the last norm, and the embeddings that they came of."""

    def __init__(self, llama: Llama) -> None:
        """Start without columns."""
        self.states = Rows(llama)
        self.embeddings = Rows(llama)

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Copy columns as `Cache.gather` does."""
        self.states.gather(start, columns)
        self.embeddings.gather(start, columns)
