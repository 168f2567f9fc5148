"""A cache of limited size, such as of what was computed from images."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LatestValues(Generic[Value]):
    """Values by key, of which the least recently used are dropped when they are too large together.

    The value that was computed last stays, however large it is.
    """

    def __init__(self, most: int, size: Callable[[Value], int] = lambda _: 1) -> None:
        """most: the sum of the sizes.  size: that of a value when it is new."""
        self._most, self._size = most, size
        self._values = OrderedDict[Hashable, tuple[Value, int]]()
        self._total = 0
        self._lock = Lock()

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """The value of `key`, computed if it is not in the cache; threads may share the cache."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
        value = compute()
        size = self._size(value)
        with self._lock:
            self._total += size - self._values.pop(key, (value, 0))[1]
            self._values[key] = value, size
            while self._total > self._most and len(self._values) > 1:
                self._total -= self._values.popitem(last=False)[1][1]
        return value

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()
            self._total = 0
