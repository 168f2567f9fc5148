"""Measures what exact decoding costs: target forwards with exact rows and without, in turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from mmspec.chat.engine import Engine
from mmspec.decoding.contract import Target
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.noise import NO_NOISE
from mmspec.diagnostics.prompts import Prompt
from mmspec.diagnostics.single_turn import prefilled_target
from mmspec_bench.measure.costs import seconds_of
from mmspec_bench.table import Table

GAMMAS = (0, 1, 3, 5, 7)
"""Draft lengths of the rounds that are timed; 0 is a plain token."""


@dataclass(frozen=True, slots=True)
class ExactPrice:
    """Median seconds of a target forward over gamma + 1 rows, with exact rows and without."""

    gamma: int
    exact: float
    ordinary: float

    @property
    def ratio(self) -> float:
        """The time with exact rows, divided by that without."""
        return self.exact / self.ordinary


def exact_prices(engine: Engine, prompt: Prompt, repeats: int) -> list[ExactPrice]:
    """Time both kinds of forwards after a prompt, in turns; nothing is committed.

    Raises UsageError if no number of rows is exact for the target on this machine.
    """
    rows = engine.exact_rows("on")
    targets = [prefilled_target(engine, prompt.message, (), way) for way in (rows, None)]
    return [_price(engine, targets, gamma, repeats) for gamma in GAMMAS]


def _price(engine: Engine, targets: Sequence[Target], gamma: int, repeats: int) -> ExactPrice:
    draft = HostDraft([1] * gamma) if gamma else None
    columns: list[list[float]] = [[], []]
    for turn in range(repeats + 2):
        for column, target in zip(columns, targets, strict=True):
            seconds = seconds_of(engine, partial(target.verify, draft, NO_NOISE))
            if turn >= 2:  # the first two warm up
                column.append(seconds)
    return ExactPrice(gamma, *map(median, columns))


def price_table(prices: Sequence[ExactPrice]) -> Table:
    """A table of the prices, for the terminal and reports."""
    columns = ("", "exact, ms", "ordinary, ms", "ratio")
    rows = [
        (
            f"round of gamma {price.gamma}" if price.gamma else "plain token",
            f"{price.exact * 1e3:.2f}",
            f"{price.ordinary * 1e3:.2f}",
            f"{price.ratio:.2f}",
        )
        for price in prices
    ]
    note = "Exact: forwards whose bits do not depend on what is drafted. Ratio: exact / ordinary."
    return Table("Target forwards, exact and ordinary", columns, rows, note)
