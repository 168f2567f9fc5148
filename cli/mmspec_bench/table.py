"""The parts of a report: tables of text and remarks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any


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


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with remarks and tables."""

    title: str
    remarks: Sequence[str] = ()
    tables: Sequence[Table] = ()
    has_figure: bool = False
    """True if the run's figure is shown in the section."""


def of_methods(
    title: str,
    note: str,
    columns: Sequence[tuple[str, str, Callable[[Any], str]]],
    summaries: Sequence[dict[str, Any]],
) -> Table:
    """A table with one line for each method; columns: heading, measure and its formatter."""
    names = ("method", *(heading for heading, _, _ in columns))
    lines = [
        (summary["method"], *(text(summary[measure]) for _, measure, text in columns))
        for summary in summaries
    ]
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


def share(part: int, whole: int) -> str:
    """A share in per cent with its counts; empty if `whole` is 0."""
    return f"{percent(part / whole)} ({part}/{whole})" if whole else ""


def count_of(count: int, noun: str) -> str:
    """A count with its noun: "1 image", "2 images"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
