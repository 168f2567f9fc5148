"""Wraps streamed text between words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from rich.cells import cell_len

TAB = 8
_UNIT = re.compile(r"\n|[ \t]+|[^\n \t]+")


@dataclass(slots=True)
class Step:
    """One terminal operation: erase `erase` columns before the cursor, then write `text`."""

    text: str
    style: str | None = None
    erase: int = 0


class Wrap:
    """Wraps text as it arrives; tracks the cursor's column.

    The beginning of a word is written at once.  A word that outgrows its line is erased there and
    written on the next; one longer than a line is cut.
    """

    def __init__(self) -> None:
        self._column = 0
        self._word: list[Step] = []
        self._width = 0
        self._steps: list[Step] = []

    def lay(self, text: str, style: str | None, width: int) -> list[Step]:
        """The steps that write `text` on a terminal of `width` columns."""
        if width != self._width:
            self._width, self._word = width, []  # the terminal has moved it: erase nothing
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
        """Write spaces up to the end of the line; the rest move the next word to a new line."""
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
        """Move the word so far to a new line, if that has room for it and `size` more columns."""
        columns = sum(cell_len(part.text) for part in self._word)
        if columns + size > limit:
            return
        if columns:
            self._steps.append(Step("", None, erase=columns))
        word = self._word
        self._end_line(None)
        for part in word:
            self._put(part.text, part.style)
        self._column, self._word = columns, word

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
        """Add a step that writes text, or extend the last step if it has the same style."""
        if self._steps and self._steps[-1].style == style:
            self._steps[-1].text += text
        else:
            self._steps.append(Step(text, style))


def _units(text: str) -> Iterator[str]:
    """Yield newlines, runs of spaces, single wide characters, and the text between them.

    Combining marks at the start of a unit are a separate unit.
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
    """Yield the combining marks at the start of a run, then the rest."""
    marks = len(list(takewhile(lambda letter: letter not in " \t\n" and not cell_len(letter), run)))
    yield from filter(None, (run[:marks], run[marks:]))


def _is_wide(unit: str) -> bool:
    """True if a line may break before and after the unit, as between Chinese characters."""
    return len(unit) == 1 and cell_len(unit) > 1
