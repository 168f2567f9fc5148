"""The array operations that the core uses on arrays of any backend."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar


class Rows(Protocol):
    """Rows [n, ...] on a backend's device; operations are enqueued, no value is read back."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes, known on the host without waiting for the device."""
        ...

    @property
    def T(self: "A") -> "A":
        """The transpose."""
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
"""A backend's array type."""

Map = Callable[[A], A]
"""Function from rows [n, I] to rows [n, O]."""
