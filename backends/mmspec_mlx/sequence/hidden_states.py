"""Hidden states or embeddings of a target's columns, for heads.

Shape letters: n columns, H width.
"""

from collections.abc import Sequence

import mlx.core as mx

from mmspec_mlx.network.cache import STEP


class Rows:
    """Implements `mmspec.decoding.stored_states.ColumnRows`."""

    def __init__(self, empty: mx.array) -> None:
        """empty: an array [0, H] with the dtype that the rows get."""
        self._rows = empty

    def write(self, start: int, rows: mx.array) -> None:
        """Store rows [n, H] of the columns from `start` on."""
        end = start + len(rows)
        if end > len(self._rows):
            self._grow(end)
        self._rows[start:end] = rows

    def read(self, start: int, stop: int) -> mx.array:
        """Return the rows [n, H] of the columns from `start` up to `stop`."""
        return self._rows[start:stop]

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move the rows of `columns`, ascending from `start` or later, to `start` onwards."""
        chosen = mx.array(list(columns))
        self._rows[start : start + len(columns)] = mx.take(self._rows, chosen, axis=0)

    def settle(self) -> None:
        """Wait until all writes are computed, which bounds memory use."""
        mx.eval(self._rows)

    def _grow(self, end: int) -> None:
        shape = -(-end // STEP) * STEP - len(self._rows), self._rows.shape[1]
        self._rows = mx.concatenate([self._rows, mx.zeros(shape, self._rows.dtype)])
