"""Tables of text: on the screen, and in Markdown."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import isnan
from typing import Any

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text; its first `text_columns` columns hold words, the rest numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """What the numbers mean, in one or two sentences."""
    text_columns: int = 1
    in_terminal: bool = False
    """True if the terminal also shows the table."""

    def markdown(self) -> str:
        """The table under its title and note; numbers are aligned to the right."""
        rule = ["---"] * self.text_columns + ["--:"] * (len(self.columns) - self.text_columns)
        heads, *rows = ([*map(escaped, row)] for row in (self.columns, *self.rows))
        lines = [f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)]
        heading = [f"## {escaped(self.title)}", *filter(None, [escaped(self.note)])]
        return "\n\n".join([*heading, "\n".join(lines)])


def escaped(text: str) -> str:
    r"""Text that Markdown shows literally, on one line.

    >>> escaped("a|b <i>")
    'a\\|b &lt;i&gt;'
    """
    return _SPECIAL.sub(r"\\\1", escape(" ".join(text.split()), quote=False))


def of_methods(
    title: str,
    note: str,
    columns: Sequence[tuple[str, Callable[[dict[str, Any]], str]]],
    summaries: Sequence[dict[str, Any]],
) -> Table:
    """A table with one line for each method; columns: heading, and a summary's cell."""
    names = ("method", *(heading for heading, _ in columns))
    lines = [(summary["method"], *(text(summary) for _, text in columns)) for summary in summaries]
    return Table(title, names, lines, note, in_terminal=True)


def number(value: float | None, digits: int = 2) -> str:
    """A number with fixed digits; empty for None and nan."""
    return "" if value is None or isnan(value) else f"{value:.{digits}f}"


def positive(value: float, digits: int = 2) -> str:
    """A number with fixed digits; empty for 0, which means not measured."""
    return number(value or None, digits)


def percent(value: float | None, digits: int = 1) -> str:
    """A share in per cent; empty for None."""
    return "" if value is None else f"{value:.{digits}%}".replace("%", " %")


def signed_percent(value: float | None) -> str:
    """A relative difference in per cent, with its sign; empty for None."""
    return "" if value is None else f"{value:+.1%}".replace("%", " %")


def count_of(count: int, noun: str) -> str:
    """A count with its noun: "1 image", "2 images"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
