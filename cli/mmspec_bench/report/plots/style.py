"""Size, style and layout shared by all figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmspec.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 9.0
"""Inches: the width of a figure."""
DPI = 160
MARKERS = "osD^vPX<>hp8"

RULES: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#d9d9d9",
    "legend.frameon": False,
    "lines.markersize": 4,
    # Names of methods are shown literally, also with a dollar sign.
    "text.parse_math": False,
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure to draw, with its caption and its file name without suffix."""

    name: str
    caption: str
    draw: Callable[[], "Figure"]


def save(plot: Plot, folder: Path) -> Path:
    """Draw a figure as PNG; raises UsageError if matplotlib is not installed."""
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise UsageError('figures need matplotlib: run pip install "mmspec[bench]"') from error
    file = folder / f"{plot.name}.png"
    with rc_context(RULES):
        # Without the version in the file, the same run gives the same bytes.
        plot.draw().savefig(file, dpi=DPI, metadata={"Software": None})
    return file


def line_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour and a marker for each name; up to 20 names get different colours."""
    from matplotlib import colormaps

    colours = colormaps["tab20"]
    return {
        name: {"color": colours(i % 20), "marker": MARKERS[i % len(MARKERS)]}
        for i, name in enumerate(names)
    }


def grid(
    count: int, columns: int, height: float, *, share_x: bool = True, share_y: bool = True
) -> tuple["Figure", list["Axes"]]:
    """A grid of `count` axes in rows of `columns`, each `height` inches high."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = ceil(count / columns)
    figure = Figure(figsize=(WIDTH, rows * height + 0.5), layout="constrained")
    axes = list(figure.subplots(rows, columns, sharex=share_x, sharey=share_y, squeeze=False).flat)
    for unused in axes[count:]:
        unused.set_axis_off()
    for above in axes[max(count - columns, 0) : columns * (rows - 1)]:
        above.tick_params(labelbottom=True)
    return figure, axes[:count]


def legend(figure: "Figure", axes: "Axes", columns: int) -> None:
    """Add one legend above all axes, with the entries of `axes`."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)
