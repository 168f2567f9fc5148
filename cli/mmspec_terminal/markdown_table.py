"""Tables of Markdown in columns of a terminal, where a letter may take two."""

from collections.abc import Callable
from typing import NamedTuple

from rich.cells import cell_len

from mmspec_terminal.wrapping import Run

BOLD = "bold"
GAP = 2
"""Columns between two of a table."""


class Cell(NamedTuple):
    """A cell of a table: its text, and the style attribute that says how it is aligned."""

    runs: list[Run]
    align: str

    @property
    def columns(self) -> int:
        """The columns of the terminal that the text takes."""
        return sum(cell_len(text) for text, _ in self.runs)

    def padded(self, width: int) -> list[Run]:
        """The text in so many columns."""
        spare = width - self.columns
        left = {"text-align:right": spare, "text-align:center": spare // 2}.get(self.align, 0)
        return [(" " * left, None), *self.runs, (" " * (spare - left), None)]


def table_lines(rows: list[list[Cell]], columns: Callable[[], int] | None) -> list[list[Run]]:
    """A table's lines; if it is too wide, each cell behind its column's title."""
    widths = [max(cell.columns for cell in column) for column in zip(*rows, strict=True)]
    if not columns or sum(widths) + GAP * len(widths) <= columns():
        gap: list[Run] = [(" " * GAP, None)]
        return [
            [
                run
                for place, cell in enumerate(row)
                for run in [*(gap if place else []), *cell.padded(widths[place])]
            ]
            for row in rows
        ]
    lines: list[list[Run]] = []
    for number, row in enumerate(rows[1:]):
        lines += [[]] if number else []
        pairs = zip(rows[0], row, strict=True)
        lines += [[*title.runs, (": ", BOLD), *cell.runs] for title, cell in pairs]
    return lines
