"""What is stored of a target's columns on the device, for its own forwards and for heads.

Shape letters: n columns, H width.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from mmspec.decoding.delta_states import DeltaStates
from mmspec.ground.arrays import A

Out = TypeVar("Out", covariant=True)


class ColumnCache(Protocol[Out]):
    """A cache on the device, indexed by column; its owner knows how many columns are valid."""

    def read(self, start: int, stop: int) -> Out:
        """The content [n, ...] of columns, which callers must not modify."""

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move the columns `columns` to `start` onwards; they ascend, none is before `start`."""

    def settle(self) -> None:
        """Wait until all writes are computed, in a framework that computes lazily."""


class LayerCaches(ColumnCache[A], Protocol[A]):
    """The caches of a decoder's layers."""

    states: DeltaStates[A] | None
    """The states of recurrent layers; None without any."""


class ColumnRows(ColumnCache[A], Protocol[A]):
    """An array with one row [H] per column of a sequence."""

    def write(self, start: int, rows: A) -> None:
        """Store rows [n, H] of the columns from `start` on."""


class StoredStates(NamedTuple, Generic[A]):
    """What a head reads of a target's columns."""

    states: ColumnRows[A]
    """Hidden states after the last norm, a row for each column that was fed."""
    embeddings: ColumnRows[A]
    captured: ColumnRows[A] | None
    """Outputs of the captured layers side by side, for columns that were fed; None without any."""

    def all(self) -> list[ColumnRows[A]]:
        """Everything that is stored."""
        return [rows for rows in self if rows is not None]
