"""Step latency: a drafted token by branches, a target forward by rows."""

from typing import TYPE_CHECKING

from mmspec.bench.report.merge import Run
from mmspec.bench.report.plots.style import Look, Plot, grid, legend
from mmspec.bench.report.table import several

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Light to dark: more images.
SHADES = ("#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c", "#08306b")


def latency(run: Run) -> Plot:
    """From the costs in the provenance; a line for each number of images."""

    def draw(look: Look) -> "Figure":  # noqa: ARG001 - the colours are the images'
        figure, (draft, target) = grid(2, 2, 2.6, share_x=False, share_y=False)
        shades = SHADES[-len(run.costs) :] if len(run.costs) < len(SHADES) else SHADES
        for costs, shade in zip(run.costs, shades, strict=False):
            label = f"{several(costs.images, 'image')}, {costs.prompt_tokens} tokens"
            _line(draft, costs.draft, shade, label)
            _line(target, costs.target, shade, label)
        for axes in (draft, target):
            axes.set_ylim(bottom=0)
        draft.set(title="one drafted token", xlabel="branches", ylabel="milliseconds")
        target.set(title="one target forward", xlabel="rows (tokens at once)")
        legend(figure, target, 4)
        return figure

    caption = "Step latency by number of branches, and of the target by rows, before the run."
    return Plot("latency", caption, draw)


def _line(axes: "Axes", seconds: list[float], colour: str, label: str) -> None:
    counts = range(1, len(seconds) + 1)
    axes.plot(
        counts, [1e3 * each for each in seconds], "o-", color=colour, label=label, markersize=4
    )
    axes.set_xticks(counts)
    axes.grid(axis="y")
