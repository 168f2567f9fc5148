"""Tables of text."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """What the numbers mean, in one or two sentences."""


def number(value: float | None) -> str:
    """A number with two digits; empty for None."""
    return "" if value is None else f"{value:.2f}"


def positive(value: float) -> str:
    """A number with two digits; empty for 0, which means not measured."""
    return number(value or None)


def percent(value: float | None, digits: int = 1) -> str:
    """A share in per cent; empty for None."""
    return "" if value is None else f"{value:.{digits}%}".replace("%", " %")


def signed_percent(value: float | None) -> str:
    """A relative difference in per cent, with its sign; empty for None."""
    return "" if value is None else f"{value:+.1%}".replace("%", " %")
