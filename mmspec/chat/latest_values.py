"""A cache of limited size, such as of what was computed from images."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LatestValues(Generic[Value]):
    """Values by key, of which the least recently used are dropped when they are too large together.

    The value that was computed last stays, however large it is.
    """

    def __init__(self, most: int, size: Callable[[Value], int] = lambda _: 1) -> None:
        """most: the sum of the sizes.  size: that of a value when it is new."""
        self._most, self._size = most, size
        self._values: OrderedDict[str, tuple[Value, int]] = OrderedDict()

    def get(self, key: str, compute: Callable[[], Value]) -> Value:
        """The value of `key`, computed if it is not in the cache."""
        if key not in self._values:
            value = compute()
            self._values[key] = value, self._size(value)
            self._shrink()
        self._values.move_to_end(key)
        return self._values[key][0]

    def _shrink(self) -> None:
        total = sum(size for _, size in self._values.values())
        while total > self._most and len(self._values) > 1:
            _, (_, size) = self._values.popitem(last=False)
            total -= size

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()
