"""What a report is made of, whatever it is written as: titled tables of text, figures, remarks."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text; the first `words` columns are words, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """What the numbers are, in a sentence or two."""
    words: int = 1
    brief: bool = False
    """Whether it is narrow and telling enough for a terminal."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands under it: remarks, figures by name, tables."""

    title: str
    remarks: Sequence[str] = ()
    figures: Sequence[str] = ()
    tables: Sequence[Table] = ()


def number(value: float | None, digits: int = 2) -> str:
    """A number of fixed digits; nothing for None."""
    return "" if value is None else f"{value:.{digits}f}"


def measured(value: float, digits: int = 2) -> str:
    """A number that cannot be 0, which says that nothing was measured."""
    return number(value or None, digits)


def percent(value: float | None, digits: int = 1) -> str:
    """A share in per cent; nothing for None."""
    return "" if value is None else f"{value:.{digits}%}".replace("%", " %")


def share(part: int, whole: int) -> str:
    """A share with its counts; nothing where nothing was counted."""
    return f"{percent(part / whole)} ({part}/{whole})" if whole else ""


def several(count: int, word: str) -> str:
    """A count with its word, which ends in -s unless there is one."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def signed(value: float) -> str:
    """A difference in per cent."""
    return f"{value:+.1%}".replace("%", " %")
