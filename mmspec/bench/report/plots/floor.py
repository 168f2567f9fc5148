"""What forwards cost beside the floor: the bytes they read, copied at full speed."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mmspec.bench.report.plots.style import FAINT, Look, Plot, grid, legend
from mmspec.bench.synthetic.floor import Cost
from mmspec.bench.synthetic.measure import SyntheticReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FLOOR = "#ddaa33"


def floor_plot(report: SyntheticReport) -> Plot:
    """Milliseconds of a verification by rows, and of a drafted token by branches and head."""

    def draw(look: Look) -> "Figure":  # noqa: ARG001 - there are no methods
        figure, (verify, draft) = grid(2, 2, 2.6, share_x=False, share_y=False)
        _pair(verify, [str(rows) for rows in report.verify], report.verify.values(), report)
        _pair(draft, list(report.draft), report.draft.values(), report)
        verify.set(title="a target forward", xlabel="rows", ylabel="milliseconds")
        draft.set(title="a drafted token", xlabel="drafting")
        legend(figure, verify, 2)
        return figure

    return Plot("floor", f"Forwards of {report.checkpoint} on {report.device}.", draw)


def _pair(axes: "Axes", labels: list[str], costs: Iterable[Cost], report: SyntheticReport) -> None:
    """A bar for what was measured, and across it a line where the floor is."""
    every = list(costs)
    places = range(len(every))
    axes.bar(places, [1e3 * each.seconds for each in every], 0.7, color=FAINT, label="measured")
    floors = [1e3 * each.floor(report.bandwidth) for each in every]
    starts, ends = [place - 0.35 for place in places], [place + 0.35 for place in places]
    axes.hlines(floors, starts, ends, color=_FLOOR, linewidth=2.5, label="floor")
    for place, each, floor in zip(places, every, floors, strict=True):
        share = f"{floor / (1e3 * each.seconds):.0%}"
        axes.annotate(share, (place, 1e3 * each.seconds), ha="center", va="bottom", fontsize=7.5)
    axes.set_xticks(places, labels)
    axes.grid(axis="y")
