"""What is stored of a target's columns on the device, for its own forwards and for heads.

Shape letters: n columns, V vocabulary, H width.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol

from mmspec.decoding.delta_states import DeltaStates
from mmspec.decoding.framework import Framework
from mmspec.ground.arrays import A, Positions

STEP = 256
"""Number of columns by which a cache grows at a time."""


def capacity(columns: int) -> int:
    """Number of columns that a cache has once it had to hold as many."""
    return -(-columns // STEP) * STEP


class LayerCaches(Protocol[A]):
    """The caches of a decoder's layers by column; its owner knows how many columns are valid."""

    states: DeltaStates[A] | None
    """The states of recurrent layers; None without any."""

    def read(self, start: int, stop: int) -> A:
        """The keys and values [n, W] of columns, which callers must not modify."""

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move the columns `columns` to `start` onwards; they ascend, none is before `start`."""

    def settle(self) -> None:
        """Wait until all writes are computed, in a framework that computes lazily."""


class Rows(Generic[A]):
    """An array on the device with one row [H] per column, which grows as it is written."""

    def __init__(self, framework: Framework[A], width: int, dtype: Any) -> None:
        self._framework = framework
        self.array: Any = framework.zeros((0, width), dtype=dtype)
        """All rows, also those beyond the last column."""
        framework.settle(self.array)  # another thread may feed the sequence

    def write(self, start: int, rows: A) -> None:
        """Store rows [n, H] of the columns from `start` on."""
        stop, size = start + len(rows), len(self.array)
        if stop > size:
            room = capacity(stop) - size, self.array.shape[1]
            wider = self._framework.zeros(room, dtype=self.array.dtype)
            self.array = self._framework.concat([self.array, wider], 0)
        self.array[start:stop] = rows

    def read(self, start: int, stop: int) -> A:
        """The rows [n, H] of columns, which callers must not modify."""
        rows: A = self.array[start:stop]
        return rows

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move the rows of `columns`, ascending from `start` or later, to `start` onwards."""
        index = self._framework.integers(columns)
        self.array[start : start + len(columns)] = self._framework.pick(self.array, index)
        self._framework.start(self.array)  # the next answer may be another thread's


class StoredStates(NamedTuple, Generic[A]):
    """What a head reads of a target's columns."""

    states: Rows[A]
    """Hidden states after the last norm, a row for each column that was fed."""
    embeddings: Rows[A]
    layer_outputs: Rows[A] | None
    """Outputs of the captured layers side by side, for columns that were fed; None without any."""

    def all(self) -> list[Rows[A]]:
        """Everything that is stored."""
        return [rows for rows in self if rows is not None]


class HiddenStates(Protocol[A]):
    """Read access to a target's columns, for a head; callers must not modify the arrays."""

    def states(self, start: int, stop: int) -> A:
        """Hidden states [n, H] after the last norm, at columns that the target has been fed."""

    def layer_outputs(self, start: int, stop: int) -> A:
        """Outputs [n, c H] of the c layers asked for, at columns that the target has been fed."""

    def embeddings(self, start: int, stop: int) -> A:
        """Embeddings [n, H] of any columns; at an image they are its projected features."""

    def positions(self, start: int, stop: int) -> Positions:
        """Rotary positions [3, n] of any columns."""

    def ids(self, start: int, stop: int) -> Sequence[int]:
        """Token ids [n] of columns of text."""

    def embed(self, ids: A) -> A:
        """Embeddings [n, H] of drafted token ids [n]; starts computing them."""

    def project(self, states: A) -> A:
        """Logits [n, V] of hidden states [n, H]."""
