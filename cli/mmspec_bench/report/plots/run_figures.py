"""The figures of a run: block efficiency, accepted tokens over an answer, adaptive weights."""

from typing import TYPE_CHECKING

from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.report.plots.style import Plot, grid, legend, line_styles
from mmspec_bench.report.table import count_of
from mmspec_bench.suite.metrics import accepted_over_time, block_efficiency, weights_by_round

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANSWER_PARTS = 12
"""Number of equal parts into which the horizontal axis divides an answer."""
BRANCHES = "MTCP"


def efficiency(run: BenchRun, published: dict[tuple[str, str], float], paper: str) -> Plot:
    """Block efficiency by task and method.

    published: the values of `paper` by task and method, shown as open diamonds.
    """

    def draw() -> "Figure":
        styles = line_styles(run.drafting)
        rows = [row for row in run.of(*run.drafting) if row.turn == 0]
        panels = grouped(rows, lambda row: row.task)
        figure, every = grid(len(panels), 5, 0.5 + 0.17 * len(run.drafting))
        for axes, (task, some) in zip(every, panels.items(), strict=True):
            by_method = grouped(some, lambda row: row.method)
            for place, name in enumerate(run.drafting):
                values = [1, block_efficiency(by_method.get(name, ()))]
                axes.plot(values, [place, place], markevery=[1], **styles[name])
                if (task, name) in published:
                    axes.plot(published[task, name], place, "D", mfc="none", mec="black")
            axes.set_title(f"{task} ({some[0].images})")
            axes.set_yticks(range(len(run.drafting)), run.drafting)
            axes.grid(axis="x")
        every[0].invert_yaxis()
        every[0].set_xlim(left=1)
        figure.supxlabel("tokens per round (block efficiency)")
        return figure

    diamonds = f"; the open diamonds are {paper}'s" if published else ""
    caption = f"Tokens per round by task (its images) and method, first turns{diamonds}."
    return Plot("efficiency", caption, draw)


def accepted(run: BenchRun) -> Plot:
    """Share of accepted tokens from the beginning to the end of the answers."""

    def draw() -> "Figure":
        styles = line_styles(run.drafting)
        panels = grouped(run.of(*run.drafting), lambda row: row.images)
        figure, every = grid(len(panels), 2, 2.3)
        middles = [(part + 0.5) / ANSWER_PARTS for part in range(ANSWER_PARTS)]
        for axes, images in zip(every, sorted(panels), strict=True):
            for name, rows in grouped(panels[images], lambda row: row.method).items():
                shares = [100 * share for share in accepted_over_time(rows, ANSWER_PARTS)]
                axes.plot(middles, shares, label=name, **styles[name])
            axes.set_title(count_of(images, "image"))
            axes.grid(axis="y")
        every[0].set(xlim=(0, 1), ylim=(0, None))
        legend(figure, every[0], 6)
        figure.supxlabel("place in the answer, 0 its beginning and 1 its end")
        figure.supylabel("accepted tokens, %")
        return figure

    return Plot("accepted", "Accepted tokens over the answer, by images; all turns.", draw)


def weights_name(method: str) -> str:
    """File name, without suffix, of the figure of a method's adaptive weights."""
    return f"weights-{''.join(c if c.isalnum() else '-' for c in method)}"


def weights(run: BenchRun, method: str) -> Plot:
    """Mean adaptive weight of every branch over the rounds, by task."""

    def draw() -> "Figure":
        panels = grouped([row for row in run.of(method) if row.weights], lambda row: row.task)
        figure, every = grid(len(panels), 5, 1.5)
        for axes, (task, rows) in zip(every, panels.items(), strict=True):
            letters = {name[0] for row in rows for name in row.branches}
            for i, letter in enumerate(BRANCHES):
                if letter in letters:
                    means = weights_by_round(rows, letter)
                    axes.plot(range(1, len(means) + 1), means, f"C{i}", label=letter)
            axes.set_title(task)
            axes.set_ylim(0, 1)
            axes.grid(axis="y")
        legend(figure, every[0], len(BRANCHES))
        figure.supxlabel("round")
        figure.supylabel("mean weight")
        return figure

    caption = f"Weights of {method} by round and task, means of the answers that got so far."
    return Plot(weights_name(method), caption, draw)
