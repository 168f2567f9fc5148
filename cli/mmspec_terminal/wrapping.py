"""Wraps streamed text between words."""

import re

from rich.cells import cell_len

TAB = 8

HANGING = 40
"""Letters of a line in which its indentation is looked for."""

Run = tuple[str, str | None]
"""Text with its style."""

BAR = "│ "
"""What each line of a quote begins with."""

_HANGING = re.compile(rf"(?:{BAR}| )*(?:(?:[•*+-]|\d{{1,9}}[.)]) +)*")
"""The beginning of a line below which the rest of the line is continued."""


class Wrap:
    """Wraps text as it arrives; tracks the cursor's column.

    A word is held back until it ends, because its length decides the line that it belongs to. One
    that is longer than a line is cut. The rest of a line in a list or a quote stands below its
    text.
    """

    def __init__(self) -> None:
        self._column = 0
        self._start = ""  # of a line of the text
        self._word: list[Run] = []
        self._is_cut = False
        self._runs: list[Run] = []

    def lay(self, text: str, style: str | None, width: int) -> list[Run]:
        """The runs to write after `text` arrived, on a terminal of `width` columns."""
        limit = max(width - 1, 1)  # in the last column terminals differ in where the cursor is
        for letter in text:
            if letter in " \t\n":
                self._end_word(limit)
                self._space(letter, style, limit)
                continue
            # A line may break before and after a wide letter, as between Chinese characters.
            size, after_wide = cell_len(letter), self._word and cell_len(self._word[0][0]) > 1
            if size > 1 or (size and after_wide):
                self._end_word(limit)
            self._word.append((letter, style))
            self._is_cut = self._is_cut or _columns(self._word) > limit
            if self._is_cut:
                self._write_word(limit)
        return self._take_runs()

    def end(self, width: int) -> list[Run]:
        """The runs that are still to be written when the text has ended."""
        self._end_word(max(width - 1, 1))
        self._column, self._start = 0, ""
        return self._take_runs()

    def _end_word(self, limit: int) -> None:
        if self._column and self._column + _columns(self._word) > limit and not self._is_cut:
            self._continue_line(None, limit)
        self._write_word(limit)
        self._is_cut = False

    def _write_word(self, limit: int) -> None:
        for letter, style in self._word:
            size = cell_len(letter)
            if size and self._column + size > limit and self._column:
                self._continue_line(style, limit)
            self._put(letter, style)
            self._column += size
        self._word = []

    def _space(self, letter: str, style: str | None, limit: int) -> None:
        """Write a newline or blanks; blanks past the end of the line are left out."""
        if letter == "\n":
            self._put("\n", style)
            self._column, self._start = 0, ""
            return
        blank = 1 if letter == " " else TAB - self._column % TAB
        self._put(" " * min(blank, max(limit - self._column, 0)), style)
        self._column += blank

    def _continue_line(self, style: str | None, limit: int) -> None:
        """Break a line of text that is wider than the terminal: a newline, then the indent."""
        self._put("\n", style)
        hanging = _HANGING.match(self._start)[0]  # type: ignore[index]  # it may be empty
        self._column = cell_len(hanging) if cell_len(hanging) <= limit // 2 else 0
        if self._column:
            indent = re.sub(rf"{BAR}|.", lambda mark: BAR if mark[0] == BAR else " ", hanging)
            self._runs.append((indent, "dim"))

    def _put(self, text: str, style: str | None) -> None:
        if len(self._start) < HANGING and text != "\n":
            self._start += text
        if self._runs and self._runs[-1][1] == style:
            text = self._runs.pop()[0] + text
        self._runs.append((text, style))

    def _take_runs(self) -> list[Run]:
        runs, self._runs = self._runs, []
        return runs


def _columns(word: list[Run]) -> int:
    return sum(cell_len(letter) for letter, _ in word)
