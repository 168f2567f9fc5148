"""Tables of block efficiency: by method, images, task, and position in the draft."""

from collections.abc import Sequence

from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.report.table import Table, count_of, of_methods, percent, positive
from mmspec_bench.suite.metrics import block_efficiency
from mmspec_bench.suite.rows import PLAIN, Row
from mmspec_bench.suite.summary import Summary


def by_method(summaries: Sequence[Summary]) -> Table:
    """Block efficiency and acceptance, one line for each method."""
    note = (
        "Tokens per round over all rounds (micro), and the mean of the answers' values (macro), "
        "the target's own token included. Acceptance rate: accepted over drafted."
    )
    columns = (
        ("answers", "answers", str),
        ("tokens", "tokens", str),
        ("micro", "block_efficiency", positive),
        ("macro", "macro_block_efficiency", positive),
        ("acceptance rate", "acceptance_rate", percent),
    )
    drafting = [summary for summary in summaries if summary["method"] != PLAIN]
    return of_methods("Block efficiency", note, columns, drafting)


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
    drafting = [summary for summary in summaries if summary["acceptance_by_position"]]
    longest = max((len(summary["acceptance_by_position"]) for summary in drafting), default=0)
    tokens = [f"token {i}" for i in range(1, longest + 1)]
    conditional = [f"{i} after {i - 1}" for i in range(2, longest + 1)]
    note = (
        "Of the rounds that drafted token i, the share that accepted it; of those that accepted "
        "all tokens before it, the share that accepted it too. In trees: a token of level i."
    )
    lines = [
        (
            summary["method"],
            *_padded(summary["acceptance_by_position"], longest),
            *_padded(summary["conditional_acceptance_by_position"][1:], longest - 1),
        )
        for summary in drafting
    ]
    columns = ("method", *tokens, *conditional)
    return Table("Acceptance by position in the draft", columns, lines, note)


def _padded(shares: Sequence[float], count: int) -> list[str]:
    return [*map(percent, shares), *[""] * (count - len(shares))]
