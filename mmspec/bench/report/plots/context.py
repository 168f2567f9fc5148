"""What a token costs as the context grows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mmspec.bench.context import ContextReport
from mmspec.bench.report.plots.style import Look, Plot, grid, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def context_plot(report: ContextReport) -> Plot:
    """Milliseconds of a round's parts, and of a prompt's token, against the tokens before them."""

    def draw(look: Look) -> "Figure":  # noqa: ARG001 - there are no methods
        figure, (rounds, prefill) = grid(2, 2, 2.6, share_y=False)
        tokens = [each.tokens for each in report.costs]
        _line(rounds, tokens, [each.step for each in report.costs], "plain token", "#aaaaaa")
        _line(rounds, tokens, [each.block for each in report.costs], "verification", "#332288")
        drafted = [each for each in report.costs if each.draft is not None]
        known = [each.draft for each in drafted if each.draft is not None]
        _line(rounds, [each.tokens for each in drafted], known, "drafted token", "#ddaa33")
        _line(prefill, tokens, [each.prefill for each in report.costs], "", "#44aa99")
        rounds.set(title=f"decoding, gamma {report.gamma}", ylabel="milliseconds")
        prefill.set(title="a token of a prompt")
        for axes in (rounds, prefill):
            axes.set_ylim(bottom=0)
            axes.set_xlabel("tokens of context")
            axes.grid(axis="y")
        legend(figure, rounds, 3)
        return figure

    return Plot("context", f"Costs of {report.model} against context length.", draw)


def _line(
    axes: "Axes", tokens: Sequence[int], seconds: Sequence[float], label: str, colour: str
) -> None:
    milliseconds = [1e3 * each for each in seconds]
    axes.plot(tokens, milliseconds, "o-", color=colour, label=label, markersize=4)
