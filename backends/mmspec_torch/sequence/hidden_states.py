"""Hidden states or embeddings of a target's columns, for heads.

Shape letters: n columns, H width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mmspec_torch.device.device_io import upload
from mmspec_torch.network.cache import STEP


class Rows:
    """Implements `mmspec.decoding.stored_states.ColumnRows`."""

    def __init__(self, empty: Tensor) -> None:
        """empty: [0, H], of the rows' dtype and device."""
        self._rows = empty

    def write(self, start: int, rows: Tensor) -> None:
        """Store rows [n, H] of the columns from `start` on."""
        end = start + len(rows)
        if end > len(self._rows):
            self._grow(end)
        self._rows[start:end] = rows

    def read(self, start: int, stop: int) -> Tensor:
        """Return a view of the rows [n, H] of columns; don't write to it."""
        return self._rows[start:stop]

    @torch.inference_mode()
    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move the rows of `columns`, ascending from `start` or later, to `start` onwards."""
        chosen = upload(columns, torch.int64, self._rows.device)
        self._rows[start : start + len(columns)] = self._rows.index_select(0, chosen)

    def settle(self) -> None:
        """Do nothing: PyTorch is not lazy."""

    def _grow(self, end: int) -> None:
        wider = self._rows.new_empty(-(-end // STEP) * STEP, self._rows.shape[1])
        wider[: len(self._rows)] = self._rows
        self._rows = wider
