"""Plots the cost of forwards against the bandwidth bound."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mmspec_bench.random_weights.bandwidth_bound import Cost
from mmspec_bench.random_weights.measure import RandomWeightsReport
from mmspec_bench.report.plots.style import Plot, grid, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def bound_plot(report: RandomWeightsReport) -> Plot:
    """Milliseconds of a verification by rows, and of a drafted token by branches and head."""

    def draw() -> "Figure":
        figure, (verify, draft) = grid(2, 2, 2.6, share_x=False, share_y=False)
        _bars(verify, [str(rows) for rows in report.verify], report.verify.values(), report)
        _bars(draft, list(report.draft), report.draft.values(), report)
        verify.set(title="a target forward", xlabel="rows", ylabel="milliseconds")
        draft.set(title="a drafted token", xlabel="drafting")
        legend(figure, verify, 2)
        return figure

    return Plot("bound", f"Forwards of {report.checkpoint} on {report.device}.", draw)


def _bars(
    axes: "Axes", labels: list[str], costs: Iterable[Cost], report: RandomWeightsReport
) -> None:
    """A bar per measurement, with a line at its bound and the ratio above."""
    for place, cost in enumerate(costs):
        measured, bound = 1e3 * cost.seconds, 1e3 * cost.bound(report.bandwidth)
        axes.bar(place, measured, 0.7, color="C7", label="" if place else "measured")
        ends = [place - 0.35, place + 0.35]
        axes.plot(ends, [bound, bound], "C1", linewidth=2.5, label="" if place else "bound")
        axes.annotate(f"{bound / measured:.0%}", (place, measured), ha="center", va="bottom")
    axes.set_xticks(range(len(labels)), labels)
    axes.grid(axis="y")
