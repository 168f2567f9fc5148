"""The figure of a run: tokens per round by task and method.  matplotlib is imported to draw it."""

from math import ceil
from pathlib import Path
from typing import Any

from mmspec.errors import UsageError
from mmspec.output_files import replace_file
from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.suite.metrics import block_efficiency

FIGURE = "efficiency.png"
WIDTH = 9.0
"""The width of the figure in inches."""
DPI = 160
COLUMNS = 5
"""The most panels in one row of the figure."""

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


def draw_figure(run: BenchRun, published: dict[tuple[str, str], float], file: Path) -> None:
    """Draw block efficiency in first turns as PNG, a panel for each task.

    published: a paper's values by task and method, shown as open diamonds.  Raises UsageError if
    matplotlib is not installed.
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
        height = lines * (0.5 + 0.17 * len(run.drafting)) + 0.5
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        every = list(figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flat)
        for axes, (task, rows) in zip(every, panels.items(), strict=False):
            by_method = grouped(rows, lambda row: row.method)
            for place, name in enumerate(run.drafting):
                values = [1, block_efficiency(by_method.get(name, ()))]
                axes.plot(values, [place, place], "C0o-", markevery=[1])
                if (task, name) in published:
                    axes.plot(published[task, name], place, "D", mfc="none", mec="black")
            axes.set_title(f"{task} ({rows[0].images})")
            axes.set_yticks(range(len(run.drafting)), run.drafting)
        for unused in every[len(panels) :]:
            unused.set_axis_off()
        for above in every[len(panels) - columns : columns * (lines - 1)]:
            above.tick_params(labelbottom=True)
        every[0].invert_yaxis()
        every[0].set_xlim(left=1)
        figure.supxlabel("tokens per round (block efficiency)")
        # Without the version in the file, the same run gives the same bytes.
        with replace_file(file) as partial:
            figure.savefig(partial, dpi=DPI, format="png", metadata={"Software": None})
