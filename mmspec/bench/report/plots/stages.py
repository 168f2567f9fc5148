"""Time by stage by image count, stacked: what an answer's seconds are spent on."""

from typing import TYPE_CHECKING

from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.plots.style import STAGE_COLOURS, Look, Plot, grid, legend
from mmspec.bench.report.table import several
from mmspec.bench.suite.metrics import STAGES, stage_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def stages(run: Run) -> Plot:
    """A panel for each number of images, a bar for each method."""

    def draw(look: Look) -> "Figure":  # noqa: ARG001 - the colours are the stages'
        first = [row for row in run.of(*run.compared) if row.turn == 0]
        groups = grouped(first, lambda row: row.images)
        height = 0.5 + 0.19 * len(run.compared)
        figure, every = grid(len(groups), 2, height)
        for axes, images in zip(every, sorted(groups), strict=True):
            axes.set_title(several(images, "image"))
            by_method = grouped(groups[images], lambda row: row.method)
            _bars(axes, {name: stage_seconds(rows) for name, rows in by_method.items()})
        every[0].invert_yaxis()
        legend(figure, every[0], len(STAGES))
        figure.supxlabel("mean seconds of an answer, first turns", fontsize=9.5)
        return figure

    return Plot("stages", "Time by stage, by number of images; first turns.", draw)


def _bars(axes: "Axes", seconds: dict[str, dict[str, float]]) -> None:
    left = dict.fromkeys(seconds, 0.0)
    for stage in STAGES:
        widths = [max(each[stage], 0.0) for each in seconds.values()]
        axes.barh(
            list(seconds),
            widths,
            left=list(left.values()),
            height=0.72,
            color=STAGE_COLOURS[stage],
            label=stage,
        )
        left = {
            name: before + width for (name, before), width in zip(left.items(), widths, strict=True)
        }
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
