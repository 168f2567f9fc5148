"""A cache of a fixed number of values, such as what was computed from images."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LatestValues(Generic[Value]):
    """Values by key, of which the least recently used is dropped when there are too many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, Value] = OrderedDict()

    def get(self, key: str, compute: Callable[[], Value]) -> Value:
        """The value of `key`, computed if it is not in the cache."""
        if key not in self._values:
            self._values[key] = compute()
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        self._values.move_to_end(key)
        return self._values[key]

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()
