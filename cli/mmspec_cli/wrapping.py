"""Streamed text on a terminal, its lines broken between words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from rich.cells import cell_len

TAB = 8
_UNIT = re.compile(r"\n|[ \t]+|[^\n \t]+")


@dataclass(slots=True)
class Step:
    """Something to write: erase so many columns before the cursor, then show the text."""

    text: str
    style: str | None = None
    erase: int = 0


class Wrap:
    """Knows where on its line the text has come to.

    A word is shown as far as it is known.  One that outgrows its line is erased there and begins
    the next; one longer than a line is cut.
    """

    def __init__(self) -> None:
        """At the start of a line."""
        self._column = 0
        self._word: list[Step] = []
        self._width = 0
        self._steps: list[Step] = []

    def lay(self, text: str, style: str | None, width: int) -> list[Step]:
        """What to write to show `text` on a terminal of `width` columns."""
        if width != self._width:
            self._width, self._word = width, []  # who knows where it is now: erase nothing
        self._steps = []
        limit = max(width - 1, 1)  # in the last column terminals differ in where the cursor is
        for unit in _units(text):
            if unit == "\n":
                self._end_line(style)
            elif unit[0] in " \t":
                self._space(unit, style, limit)
            else:
                self._letters(unit, style, limit)
        return self._steps

    def _space(self, unit: str, style: str | None, limit: int) -> None:
        """Show it as far as the line goes; the next word begins another where nothing is left."""
        blank = len((" " * self._column + unit).expandtabs(TAB)) - self._column
        self._put(" " * min(blank, max(limit - self._column, 0)), style)
        self._column += blank
        self._word = []

    def _letters(self, unit: str, style: str | None, limit: int) -> None:
        size = cell_len(unit)
        if not size:  # marks on what precedes them, wherever that stands
            self._put(unit, style)
            self._word += [Step(unit, style)] if self._word else []
            return
        whole = _is_wide(unit)
        if whole:
            self._word = []
        if self._column + size > limit:
            self._move_word(size, limit)
        if self._column + size > limit:
            self._cut(unit, style, limit)
            return
        self._put(unit, style)
        self._column += size
        self._word = [] if whole else [*self._word, Step(unit, style)]

    def _move_word(self, size: int, limit: int) -> None:
        """Begin another line with the word so far, if it and what follows have room there."""
        held = sum(cell_len(part.text) for part in self._word)
        if held + size > limit:
            return
        if held:
            self._steps.append(Step("", None, erase=held))
        word = self._word
        self._end_line(None)
        for part in word:
            self._put(part.text, part.style)
        self._column, self._word = held, word

    def _cut(self, unit: str, style: str | None, limit: int) -> None:
        for letter in unit:
            size = cell_len(letter)
            if self._column + size > limit and self._column:
                self._end_line(style)
            self._put(letter, style)
            self._column += size
        self._word = []

    def _end_line(self, style: str | None) -> None:
        self._put("\n", style)
        self._column, self._word = 0, []

    def _put(self, text: str, style: str | None) -> None:
        """Add to the last step where it looks the same."""
        if self._steps and self._steps[-1].style == style:
            self._steps[-1].text += text
        else:
            self._steps.append(Step(text, style))


def _units(text: str) -> Iterator[str]:
    """Newlines, runs of spaces, wide characters one by one and what stands between all these.

    Marks at the start of a unit come by themselves.
    """
    for run in _UNIT.findall(text):
        start = 0
        for at, letter in enumerate(run):
            if _is_wide(letter):
                yield from _after_marks(run[start:at])
                yield letter
                start = at + 1
        yield from _after_marks(run[start:])


def _after_marks(run: str) -> Iterator[str]:
    """The marks at the start of a run, which belong to what precedes it, and the rest."""
    marks = len(list(takewhile(lambda letter: letter not in " \t\n" and not cell_len(letter), run)))
    yield from filter(None, (run[:marks], run[marks:]))


def _is_wide(unit: str) -> bool:
    """Whether a line may break before and after it, as between the characters of Chinese."""
    return len(unit) == 1 and cell_len(unit) > 1
