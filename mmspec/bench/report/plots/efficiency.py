"""Block efficiency by dataset and method: a panel for each task, published values beside."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.plots.style import INK, Look, Plot, grid
from mmspec.bench.suite.metrics import block_efficiency
from mmspec.bench.suite.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Published = dict[tuple[str, str], float]
"""By task and method."""


def efficiency(run: Run, published: Published, paper: str) -> Plot:
    """paper: what the published values are called; empty without any."""

    def draw(look: Look) -> "Figure":
        first = [row for row in run.of(*run.drafting) if row.turn == 0]
        groups = grouped(first, lambda row: row.task)
        figure, every = grid(len(groups), 5, 0.5 + 0.17 * len(run.drafting))
        for axes, (task, rows) in zip(every, groups.items(), strict=True):
            axes.set_title(f"{task} ({rows[0].images})")
            _panel(axes, rows, run.drafting, look)
            _marks(axes, [published.get((task, name)) for name in run.drafting])
        every[0].invert_yaxis()
        every[0].set_xlim(left=1)
        figure.supxlabel("tokens per round (block efficiency)", fontsize=9.5)
        return figure

    beside = f"; the open diamonds are {paper}'s" if published else ""
    caption = f"Tokens per round by dataset (its images) and method, first turns{beside}."
    return Plot("efficiency", caption, draw)


def _panel(axes: "Axes", rows: Sequence[Row], methods: Sequence[str], look: Look) -> None:
    """A line from 1, plain decoding, to each method's value."""
    groups = grouped(rows, lambda row: row.method)
    for place, name in enumerate(methods):
        value = block_efficiency(groups.get(name, ()))
        axes.plot([1, value], [place, place], color=look.colours[name], linewidth=2)
        axes.plot(value, place, "o", color=look.colours[name], markersize=5)
    axes.set_yticks(range(len(methods)), methods)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def _marks(axes: "Axes", values: Sequence[float | None]) -> None:
    found = [(value, place) for place, value in enumerate(values) if value is not None]
    if found:
        axes.plot(
            *zip(*found, strict=True),
            linestyle="none",
            marker="D",
            markersize=5,
            markerfacecolor="none",
            markeredgecolor=INK,
            markeredgewidth=0.9,
        )
