"""How an answer goes: accepted tokens over normalised time, and adaptive weights over rounds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.plots.style import Look, Plot, branch_colour, grid, legend
from mmspec.bench.report.table import several
from mmspec.bench.suite.metrics import accepted_over_time, weights_by_round
from mmspec.bench.suite.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = 12
"""Into which an answer is divided."""
BRANCHES = "MTCP"


def accepted(run: Run) -> Plot:
    """A panel for each number of images, a line for each method."""

    def draw(look: Look) -> "Figure":
        groups = grouped(run.of(*run.drafting), lambda row: row.images)
        figure, every = grid(len(groups), 2, 2.3)
        middles = [(part + 0.5) / PARTS for part in range(PARTS)]
        for axes, images in zip(every, sorted(groups), strict=True):
            axes.set_title(several(images, "image"))
            for name, rows in grouped(groups[images], lambda row: row.method).items():
                shares = [100 * share for share in accepted_over_time(rows, PARTS)]
                style = {"color": look.colours[name], "marker": look.markers[name]}
                axes.plot(middles, shares, label=name, markersize=4, **style)  # type: ignore[arg-type]
            axes.grid(axis="y")
        every[0].set(xlim=(0, 1), ylim=(0, None))
        legend(figure, every[0], 6)
        figure.supxlabel("place in the answer, 0 its beginning and 1 its end", fontsize=9.5)
        figure.supylabel("tokens drafted and kept, %", fontsize=9.5)
        return figure

    caption = "Accepted tokens over normalised time, by number of images; all turns."
    return Plot("accepted", caption, draw)


def weights(run: Run, method: str) -> Plot:
    """A panel for each task, a line for each branch."""

    def draw(look: Look) -> "Figure":  # noqa: ARG001 - the colours are the branches'
        groups = grouped((row for row in run.of(method) if row.weights), lambda row: row.task)
        figure, every = grid(len(groups), 5, 1.5)
        for axes, (task, rows) in zip(every, groups.items(), strict=True):
            axes.set_title(task)
            _lines(axes, rows)
        legend(figure, every[0], len(BRANCHES))
        figure.supxlabel("round", fontsize=9.5)
        figure.supylabel("mean weight", fontsize=9.5)
        return figure

    caption = f"Weights of {method} over rounds, mean of the answers that got so far, by task."
    return Plot(f"weights-{''.join(c if c.isalnum() else '-' for c in method)}", caption, draw)


def _lines(axes: "Axes", rows: Sequence[Row]) -> None:
    there = {name[0] for row in rows for name in row.branches}
    for letter in (each for each in BRANCHES if each in there):
        means = weights_by_round(rows, letter)
        places = range(1, len(means) + 1)
        axes.plot(places, means, color=branch_colour(letter), label=letter)
    axes.set_ylim(0, 1)
    axes.grid(axis="y")
