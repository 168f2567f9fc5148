"""The figure of a run: tokens per round by task and method.  matplotlib is imported to draw it."""

from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any

from mmspec.ground.errors import UsageError
from mmspec.ground.output_files import replace_file
from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.suite.metrics import block_efficiency
from mmspec_bench.table import count_of

FIGURE = "efficiency.png"
WIDTH = 9.0
"""The width of the figure in inches."""
DPI = 160
TITLE, NAME = 24, 28
"""The most characters in a line of a panel's title, and of a method's name."""
COLUMNS = 5
"""The most panels in one row of the figure."""

OURS: dict[str, Any] = {"marker": "o", "color": "C0", "linestyle": "none", "clip_on": False}
PUBLISHED: dict[str, Any] = {
    "marker": "D",
    "markeredgecolor": "black",
    "markerfacecolor": "none",
    "linestyle": "none",
    "clip_on": False,
}

RULES: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "grid.color": "#d9d9d9",
    "lines.markersize": 4,
    # Names of methods are shown literally, also with a dollar sign.
    "text.parse_math": False,
}


def draw_figure(
    run: BenchRun, published: dict[tuple[str, str], float], paper: str, file: Path
) -> None:
    """Draw block efficiency in first turns as PNG, a panel for each task.

    published: the values of the paper by task and method, shown as open diamonds.  Raises
    UsageError if matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError('figures need matplotlib: run pip install "mmspec[bench]"') from error
    panels = grouped([row for row in run.of(*run.drafting) if row.turn == 0], lambda row: row.task)
    columns = min(COLUMNS, len(panels))
    lines = ceil(len(panels) / columns)
    with rc_context(RULES):
        height = lines * (0.5 + 0.17 * len(run.drafting)) + 0.8
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        every = list(figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flat)
        for axes, (task, rows) in zip(every, panels.items(), strict=False):
            by_method = grouped(rows, lambda row: row.method)
            for place, name in enumerate(run.drafting):
                value = block_efficiency(by_method.get(name, ()))
                if value:
                    axes.plot([1, value], [place, place], "C0-")
                    axes.plot(value, place, label="this run", **OURS)
                if (task, name) in published:
                    axes.plot(
                        published[task, name], place, label=f"published in {paper}", **PUBLISHED
                    )
            axes.set_title(fill(f"{task}, {count_of(rows[0].images, 'image')}", TITLE))
            axes.set_yticks(range(len(run.drafting)), map(_short, run.drafting))
        for unused in every[len(panels) :]:
            unused.set_axis_off()
        for above in every[len(panels) - columns : columns * (lines - 1)]:
            above.tick_params(labelbottom=True)
        every[0].set_ylim(len(run.drafting) - 0.5, -0.5)
        every[0].set_xlim(left=1)
        figure.supxlabel("tokens per round (block efficiency)", fontsize=9)
        marks = {
            label: line
            for axes in every
            for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(marks.values(), marks, loc="outside upper left", ncols=2, frameon=False)
        # Without the version in the file, the same run gives the same bytes.
        with replace_file(file) as partial:
            figure.savefig(partial, dpi=DPI, format="png", metadata={"Software": None})


def _short(name: str) -> str:
    """A method's name, without its middle if it is long, as one with a draft's directory."""
    return name if len(name) <= NAME else f"{name[: NAME // 2]}…{name[-NAME // 2 :]}"
