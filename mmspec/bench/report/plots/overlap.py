"""Which methods kept a token: the sizes of all combinations, as an UpSet plot."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.plots.style import FAINT, INK, Look, Plot, blank
from mmspec.bench.suite.metrics import accepted_positions
from mmspec.bench.suite.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 28
"""The most combinations drawn; the rest is left out."""

Combination = frozenset[str]


def combinations(run: Run) -> Counter[Combination]:
    """How many tokens exactly these methods drafted rightly, over answers that all gave alike.

    The empty combination counts the tokens that none did.
    """
    methods = run.drafting
    counts: Counter[Combination] = Counter()
    for rows in grouped(run.of(*methods), lambda row: row.key).values():
        if len(rows) == len(methods) and len({tuple(row.token_ids) for row in rows}) == 1:
            counts.update(_kept(rows))
    return counts


def _kept(rows: Sequence[Row]) -> Iterator[Combination]:
    """For each token of one answer, the methods that drafted it rightly."""
    places = {row.method: set(accepted_positions(row)) for row in rows}
    for place in range(rows[0].emitted):
        yield frozenset(name for name, kept in places.items() if place in kept)


def overlap(run: Run) -> Plot:
    """The largest combinations first, and each method's whole share at the left."""

    def draw(look: Look) -> "Figure":
        counts = combinations(run)
        every = max(counts.total(), 1)
        figure = blank(2.3 + 0.24 * len(run.drafting))
        ratios = {"width_ratios": [1, 4.6], "height_ratios": [1.9, 0.24 * len(run.drafting)]}
        (corner, top), (side, matrix) = figure.subplots(
            2, 2, sharex="col", sharey="row", gridspec_kw=ratios
        )
        largest = counts.most_common(SHOWN)
        _says(corner, every, len(counts), sum(count for _, count in largest))
        _sizes(top, [100 * count / every for _, count in largest])
        _matrix(matrix, [each for each, _ in largest], run.drafting, look)
        shares = [
            100 * sum(n for each, n in counts.items() if name in each) / every
            for name in run.drafting
        ]
        _shares(side, shares, run.drafting, look)
        return figure

    caption = (
        "Which tokens each method got right: the share of tokens that exactly the marked methods "
        f"drafted and kept (the {SHOWN} largest combinations; no mark: the target's own in all), "
        "and at the left each method's share. Answers that all methods gave alike."
    )
    return Plot("overlap", caption, draw)


def _says(axes: "Axes", tokens: int, combinations: int, shown: int) -> None:
    """How much of the whole is shown, in the empty corner."""
    axes.set_axis_off()
    text = f"{tokens:,} tokens\n{combinations} combinations\n{shown / tokens:.0%} in those shown"
    axes.text(0, 1, text, transform=axes.transAxes, va="top", linespacing=1.5)


def _sizes(axes: "Axes", shares: Sequence[float]) -> None:
    axes.bar(range(len(shares)), shares, width=0.66, color=INK)
    axes.set_ylabel("tokens, %")
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.tick_params(axis="y", labelleft=True)
    axes.grid(axis="y")


def _matrix(
    axes: "Axes", columns: Sequence[Combination], methods: Sequence[str], look: Look
) -> None:
    """A dot for each method of a combination, joined."""
    for x, combination in enumerate(columns):
        marked = [y for y, name in enumerate(methods) if name in combination]
        axes.plot([x] * len(methods), range(len(methods)), "o", color=FAINT, markersize=5)
        axes.plot([x] * len(marked), marked, "-", color=INK, linewidth=0.9)
        colours = [look.colours[methods[y]] for y in marked]
        axes.scatter([x] * len(marked), marked, s=34, color=colours, zorder=3)
    axes.set_xlim(-0.6, max(len(columns), 1) - 0.4)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _shares(axes: "Axes", shares: Sequence[float], methods: Sequence[str], look: Look) -> None:
    axes.barh(range(len(methods)), shares, height=0.66, color=[look.colours[m] for m in methods])
    axes.set_yticks(range(len(methods)), methods)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("drafted and kept, %")
    axes.invert_yaxis()
    axes.grid(axis="x")
