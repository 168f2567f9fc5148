"""Tables of what drafting kept: block efficiency by method, task, images and place in a draft."""

from collections.abc import Callable, Iterable, Sequence

from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.table import Table, measured, number, percent, several
from mmspec.bench.suite.metrics import block_efficiency
from mmspec.bench.suite.rows import PLAIN, Row
from mmspec.bench.suite.summary import Summary

COLUMNS = ("method", "answers", "tokens", "micro", "macro", "accepted", "accepted, macro", "rate")


def overview(summaries: Sequence[Summary]) -> Table:
    """One line for each method."""
    note = (
        "Tokens per round over all rounds (micro) and as the mean of the answers' own (macro), the "
        "target's own token included; accepted: the same without it; rate: accepted over drafted."
    )
    lines = [_line(each) for each in summaries if each.method != PLAIN]
    return Table("Block efficiency", COLUMNS, lines, note, brief=True)


def _line(each: Summary) -> tuple[str, ...]:
    accepted = each.accepted_per_round, each.macro_accepted_per_round
    return (
        each.method,
        str(each.answers),
        str(each.tokens),
        measured(each.block_efficiency),
        measured(each.macro_block_efficiency),
        *(number(kept if each.rounds else None) for kept in accepted),
        percent(each.acceptance_rate),
    )


def by_images(run: Run) -> Table:
    """Pooled over tasks, by images in the conversation."""
    counts = sorted({row.images for row in run.rows})
    columns = [(several(count, "image"), _with(count)) for count in counts]
    note = "Tokens per round (micro) by images in the conversation so far, all tasks and turns."
    return _crossed("By images", run, [*columns, ("all", lambda _: True)], note, brief=True)


def _with(images: int) -> Callable[[Row], bool]:
    return lambda row: row.images == images


def by_task(run: Run, *, later: bool) -> Table:
    """By task, over first or over later turns."""
    asked = [row for row in run.rows if (row.turn > 0) == later]
    tasks = list(dict.fromkeys(row.task for row in asked))
    columns = [(task, _of(task, later=later)) for task in tasks]
    which = "later turns" if later else "first turns"
    return _crossed(f"By task, {which}", run, columns, f"Tokens per round (micro), {which}.")


def _of(task: str, *, later: bool) -> Callable[[Row], bool]:
    return lambda row: row.task == task and (row.turn > 0) == later


def _crossed(
    title: str,
    run: Run,
    columns: Iterable[tuple[str, Callable[[Row], bool]]],
    note: str,
    *,
    brief: bool = False,
) -> Table:
    named = list(columns)
    groups = grouped(run.rows, lambda row: row.method)
    lines = [
        (name, *(measured(block_efficiency(filter(wanted, groups[name]))) for _, wanted in named))
        for name in run.drafting
    ]
    return Table(title, ("method", *(name for name, _ in named)), lines, note, brief=brief)


def by_position(summaries: Sequence[Summary]) -> Table:
    """How often each place of a draft was reached and kept."""
    drafted = [each for each in summaries if each.acceptance_by_position]
    longest = max((len(each.acceptance_by_position) for each in drafted), default=0)
    columns = [f"token {i}" for i in range(1, longest + 1)]
    given = [f"{i} after {i - 1}" for i in range(2, longest + 1)]
    note = (
        "Of the rounds that drafted a token, the share that kept it; of those that kept all "
        "before it, the share that kept it too. Of a tree: a token of that level."
    )
    lines = [_places(each, longest) for each in drafted]
    return Table("Acceptance by place in the draft", ("method", *columns, *given), lines, note)


def _places(each: Summary, longest: int) -> tuple[str, ...]:
    kept, given = each.acceptance_by_position, each.conditional_acceptance_by_position[1:]
    filled = [*map(percent, kept), *[""] * (longest - len(kept))]
    return (each.method, *filled, *map(percent, given), *[""] * (longest - 1 - len(given)))
