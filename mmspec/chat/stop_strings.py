"""Ends a text at the first of several strings, which may come in parts."""

from collections.abc import Sequence


class StopStrings:
    """Passes an answer's text on up to the first stop string.

    Withholds text that could be the beginning of one.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """stops: strings that are not empty."""
        self._stops = stops
        self._held = ""
        self.is_over = False
        """True after the first stop string."""

    def push(self, text: str) -> str:
        """The text that can be shown after `text` has come."""
        self._held += text
        ends = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        self.is_over = bool(ends)
        end = min(ends) if ends else len(self._held) - self._beginning()
        shown, self._held = self._held[:end], self._held[end:]
        return shown

    def finish(self) -> str:
        """The withheld text at the answer's end; nothing if a stop string ended it."""
        return "" if self.is_over else self._held

    def _beginning(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        lengths = range(max(map(len, self._stops), default=1) - 1, 0, -1)
        ends = (length for length in lengths if self._begins(self._held[-length:], length))
        return next(ends, 0)

    def _begins(self, end: str, length: int) -> bool:
        return len(end) == length and any(stop.startswith(end) for stop in self._stops)
