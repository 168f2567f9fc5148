"""What the core asks of an array where it hands arrays from one backend's call to the next."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar


class Rows(Protocol):
    """Rows [n, ...] on a backend's device; operations are enqueued, nothing is read back."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes, known on the host."""
        ...

    @property
    def T(self: "A") -> "A":
        """Transposed."""
        ...

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def __getitem__(self: "A", index: slice, /) -> "A":
        """Take some of the rows."""
        ...

    def __add__(self: "A", other: "A", /) -> "A":
        """Sum, broadcast."""
        ...

    def __matmul__(self: "A", other: "A", /) -> "A":
        """Multiply matrices."""
        ...

    def __truediv__(self: "A", other: float, /) -> "A":
        """Divide by a number."""
        ...


A = TypeVar("A", bound=Rows)
"""What a backend calls an array."""

Map = Callable[[A], A]
"""From rows [n, I] to rows [n, O]."""
