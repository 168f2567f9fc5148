"""The array operations that the core uses on arrays of any backend."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar


class Rows(Protocol):
    """An array [n, ...] on a backend's device; operations are enqueued and read no value back."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes of all axes, known on the host without waiting for the device."""
        ...

    @property
    def T(self: "A") -> "A":
        """The transposed array."""
        ...

    def __len__(self) -> int:
        """The number of rows."""
        ...

    def __getitem__(self: "A", index: slice, /) -> "A":
        """A slice of the rows."""
        ...

    def __add__(self: "A", other: "A", /) -> "A":
        """The sum, with broadcasting."""
        ...

    def __matmul__(self: "A", other: "A", /) -> "A":
        """The matrix product."""
        ...

    def __truediv__(self: "A", other: float, /) -> "A":
        """The quotient by a number."""
        ...


A = TypeVar("A", bound=Rows)
"""The array type of a backend."""

Map = Callable[[A], A]
"""Function from rows of I numbers [n, I] to rows of O numbers [n, O]."""
