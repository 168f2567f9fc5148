"""Tables of block efficiency: by method, images, task, and position in the draft."""

from collections.abc import Sequence

from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.report.table import Table, count_of, percent, positive
from mmspec_bench.suite.metrics import block_efficiency
from mmspec_bench.suite.rows import PLAIN, Row
from mmspec_bench.suite.summary import Summary

COLUMNS = ("method", "answers", "tokens", "micro", "macro", "acceptance rate")


def by_method(summaries: Sequence[Summary]) -> Table:
    """Block efficiency and acceptance, one line for each method."""
    note = (
        "Tokens per round over all rounds (micro), and the mean of the answers' values (macro), "
        "the target's own token included. Acceptance rate: accepted over drafted."
    )
    lines = [_method_line(summary) for summary in summaries if summary.method != PLAIN]
    return Table("Block efficiency", COLUMNS, lines, note, in_terminal=True)


def _method_line(summary: Summary) -> tuple[str, ...]:
    return (
        summary.method,
        str(summary.answers),
        str(summary.tokens),
        positive(summary.block_efficiency),
        positive(summary.macro_block_efficiency),
        percent(summary.acceptance_rate),
    )


def by_images(run: BenchRun) -> Table:
    """Block efficiency by number of images, over all tasks."""
    counts = sorted({row.images for row in run.rows})
    columns = {
        count_of(count, "image"): [row for row in run.rows if row.images == count]
        for count in counts
    }
    note = "Tokens per round (micro) by images in the conversation so far, all tasks and turns."
    return _by_column("By images", note, run, columns | {"all": run.rows}, in_terminal=True)


def by_task(run: BenchRun, *, later: bool) -> Table:
    """Block efficiency by task, over first turns or, if `later`, over later turns."""
    columns = grouped([row for row in run.rows if (row.turn > 0) == later], lambda row: row.task)
    which = "later turns" if later else "first turns"
    return _by_column(f"By task, {which}", f"Tokens per round (micro), {which}.", run, columns)


def _by_column(
    title: str,
    note: str,
    run: BenchRun,
    columns: dict[str, list[Row]],
    *,
    in_terminal: bool = False,
) -> Table:
    """Block efficiency of every method over the rows in each of `columns`."""
    groups = [grouped(rows, lambda row: row.method) for rows in columns.values()]
    lines = [
        (name, *(positive(block_efficiency(group.get(name, ()))) for group in groups))
        for name in (run.drafting if columns else ())
    ]
    return Table(title, ("method", *columns), lines, note, in_terminal=in_terminal)


def by_position(summaries: Sequence[Summary]) -> Table:
    """The acceptance rate of each position in a draft."""
    drafting = [summary for summary in summaries if summary.acceptance_by_position]
    longest = max((len(summary.acceptance_by_position) for summary in drafting), default=0)
    tokens = [f"token {i}" for i in range(1, longest + 1)]
    conditional = [f"{i} after {i - 1}" for i in range(2, longest + 1)]
    note = (
        "Of the rounds that drafted token i, the share that accepted it; of those that accepted "
        "all tokens before it, the share that accepted it too. In trees: a token of level i."
    )
    lines = [_position_line(summary, longest) for summary in drafting]
    columns = ("method", *tokens, *conditional)
    return Table("Acceptance by position in the draft", columns, lines, note)


def _position_line(summary: Summary, longest: int) -> tuple[str, ...]:
    shares = [percent(share) for share in summary.acceptance_by_position]
    conditional = [percent(share) for share in summary.conditional_acceptance_by_position[1:]]
    shares += [""] * (longest - len(shares))
    return (summary.method, *shares, *conditional, *[""] * (longest - 1 - len(conditional)))
