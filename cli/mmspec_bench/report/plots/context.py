"""Plots the cost of a token by context length."""

from typing import TYPE_CHECKING

from mmspec_bench.measure.context import ContextReport
from mmspec_bench.report.plots.style import Plot, grid, legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def context_plot(report: ContextReport) -> Plot:
    """Milliseconds of the parts of a round, and of a prompt token, by tokens of context."""

    def draw() -> "Figure":
        figure, (rounds, prefill) = grid(2, 2, 2.6, share_y=False)
        tokens = [cost.tokens for cost in report.costs]
        drafts = [
            (cost.tokens, 1e3 * cost.draft) for cost in report.costs if cost.draft is not None
        ]
        rounds.plot(tokens, [1e3 * cost.step for cost in report.costs], "o-", label="plain token")
        rounds.plot(tokens, [1e3 * cost.block for cost in report.costs], "s-", label="verification")
        rounds.plot(*zip(*drafts, strict=True), "D-", label="drafted token")
        prefill.plot(tokens, [1e3 * cost.prefill for cost in report.costs], "o-")
        rounds.set(title=f"decoding, gamma {report.gamma}", ylabel="milliseconds")
        prefill.set(title="a token of a prompt")
        for axes in (rounds, prefill):
            axes.set_ylim(bottom=0)
            axes.set_xlabel("tokens of context")
            axes.grid(axis="y")
        legend(figure, rounds, 3)
        return figure

    return Plot("context", f"Costs of {report.model} against context length.", draw)
