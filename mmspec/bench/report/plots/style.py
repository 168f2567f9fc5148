"""How all figures look: colours that colour-blind readers can tell apart, thin lines, no frames."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmspec.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 9.0
"""Inches; with DPI, as wide as a README shows."""
DPI = 160
INK, FAINT = "#333333", "#d9d9d9"

# Paul Tol's "muted" scheme, in an order in which neighbours differ in lightness too.
_KNOWN = {
    "none": "#aaaaaa",
    "M": "#332288",
    "T": "#ddaa33",
    "C": "#44aa99",
    "P": "#cc6677",
    "MT": "#88ccee",
    "MTC": "#117733",
    "MTCP": "#882255",
    "adaptive:MTC": "#999933",
    "adaptive:MTCP": "#aa4499",
    "ngram": "#555555",
}
_MORE = ("#0077bb", "#cc3311", "#000000", "#009988", "#ee7733", "#66ccee", "#663333", "#225555")
_MARKERS = "osD^vPX<>hp8"

STAGE_COLOURS = {
    "vision": "#99ddff",
    "caption": "#ee8866",
    "prefill": "#eedd88",
    "draft": "#44bb99",
    "verify": "#77aadd",
    "loop": "#dddddd",
}

RULES: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    # Names are shown as they are, also with a dollar sign.
    "text.parse_math": False,
}


@dataclass(frozen=True, slots=True)
class Look:
    """A colour and a marker for each method of a run, the same in all its figures."""

    colours: dict[str, str]
    markers: dict[str, str]

    @classmethod
    def of(cls, methods: Sequence[str]) -> "Look":
        """Known methods have colours of their own; the others share what is left, in order."""
        others = [name for name in methods if name not in _KNOWN]
        more = {name: _MORE[i % len(_MORE)] for i, name in enumerate(others)}
        every = [*_KNOWN, *others]
        markers = {name: _MARKERS[every.index(name) % len(_MARKERS)] for name in methods}
        return cls({name: _KNOWN.get(name) or more[name] for name in methods}, markers)


def branch_colour(letter: str) -> str:
    """A branch has the colour of the method that is it alone."""
    return _KNOWN[letter]


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure that can be drawn: the name of its file without ending, and what it shows."""

    name: str
    caption: str
    draw: Callable[[Look], "Figure"]


def save(plot: Plot, look: Look, folder: Path) -> Path:
    """Draw it as PNG; raises UsageError where matplotlib is not installed."""
    file = folder / f"{plot.name}.png"
    with _rules():
        # Without the version in the file, the same run gives the same bytes.
        plot.draw(look).savefig(file, dpi=DPI, metadata={"Software": None})
    return file


def _rules() -> AbstractContextManager[None]:
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise UsageError('figures need matplotlib: run pip install "mmspec[bench]"') from error
    return rc_context(RULES)


def blank(height: float, width: float = WIDTH) -> "Figure":
    """A figure of so many inches that fits its parts by itself."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def grid(
    count: int, columns: int, height: float, *, share_x: bool = True, share_y: bool = True
) -> tuple["Figure", list["Axes"]]:
    """Small multiples: `count` axes in rows of `columns`, each `height` inches high."""
    columns = min(columns, count)
    rows = ceil(count / columns)
    figure = blank(rows * height + 0.5)
    every = figure.subplots(rows, columns, sharex=share_x, sharey=share_y, squeeze=False)
    axes: list[Axes] = list(every.flat)
    for unused in axes[count:]:
        unused.set_axis_off()
    for above in axes[max(count - columns, 0) : columns * (rows - 1)]:
        above.tick_params(labelbottom=True)
    return figure, axes[:count]


def legend(figure: "Figure", axes: "Axes", columns: int) -> None:
    """One legend above all axes, of what `axes` shows."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)
