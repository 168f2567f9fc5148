"""The array operations that the core uses on arrays of any backend."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray


class DeviceArray(Protocol):
    """An array [n, ...] on a backend's device; operations are enqueued and read no value back."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes of all axes, known on the host without waiting for the device."""

    @property
    def T(self: "A") -> "A":
        """The array with its axes in reverse order."""

    def __len__(self) -> int: ...

    def __getitem__(self: "A", index: slice, /) -> "A": ...

    def __add__(self: "A", other: "A", /) -> "A": ...

    def __matmul__(self: "A", other: "A", /) -> "A": ...

    def __truediv__(self: "A", other: float, /) -> "A": ...


A = TypeVar("A", bound=DeviceArray)
"""The array type of a backend."""

Positions = NDArray[np.int64]
"""Rotary positions [3, n] on the host: time, row and column."""

Map = Callable[[A], A]
"""Function from rows of I numbers [n, I] to rows of O numbers [n, O]."""

Enter = Callable[[A], tuple[A, A]]
"""Function from a decoder layer's input to what attention reads, and what its output is added to.
"""


def behind_norm(norm: Map[A]) -> Enter[A]:
    """Function that lets attention read the norm of the input and adds to the input itself."""
    return lambda x: (norm(x), x)
