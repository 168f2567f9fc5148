"""The tables of a run: block efficiency, time, equality with plain decoding, correct facts."""

from collections.abc import Iterable, Sequence
from functools import partial

from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.suite import metrics
from mmspec_bench.suite.confidence import DRAWS, LEVEL, Difference, difference
from mmspec_bench.suite.methods import is_single_view
from mmspec_bench.suite.metrics import Pair, Summary, block_efficiency
from mmspec_bench.suite.rows import PLAIN, Row
from mmspec_bench.table import (
    Table,
    count_of,
    number,
    of_methods,
    percent,
    positive,
    share,
    signed_percent,
)

FEW_SAMPLES = 20
"""Number of samples below which bootstrap intervals are too narrow."""

KNOWLEDGE_COLUMNS = {
    PLAIN: "target",
    f"{PLAIN}:blank": "target, blank",
    "draft": "draft",
    "draft:blank": "draft, blank",
}
"""Column names of the methods whose facts are counted, by method."""


def block_efficiencies(summaries: Sequence[Summary]) -> Table:
    """Block efficiency and acceptance, one line for each method."""
    note = (
        "Tokens per round over all rounds (micro), and the mean of the answers' values (macro), "
        "the target's own token included. Acceptance rate: accepted over drafted. MBSU: the "
        "speed-up if reading parameters were all that takes time; it is no measured time."
    )
    columns = (
        ("answers", "answers", str),
        ("tokens", "tokens", str),
        ("micro", "block_efficiency", positive),
        ("macro", "macro_block_efficiency", positive),
        ("acceptance rate", "acceptance_rate", percent),
        ("MBSU", "mbsu", positive),
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


def against_best_view(run: BenchRun) -> list[Table]:
    """Other methods against the best single view, with intervals; empty if either is missing."""
    values = {name: block_efficiency(run.of(name)) for name in run.drafting}
    views = [name for name in run.drafting if values[name] and is_single_view(name)]
    best = max(views, key=lambda name: values[name], default="")
    intervals = {
        name: interval
        for name in run.drafting
        if best not in ("", name) and (interval := difference(run.of(name), run.of(best)))
    }
    if not intervals:
        return []
    has_ends = any(each.low is not None for each in intervals.values())
    ends = ("from", "to") if has_ends else ()
    columns = ("method", "tokens per round", f"than {best}", *ends)
    lines = [
        (name, number(values[name]), *map(signed_percent, interval[1 : 2 + len(ends)]))
        for name, interval in intervals.items()
    ]
    note = (
        f"Tokens per round (micro) beside the {number(values[best])} of {best}, the best single "
        f"view, which was chosen on the same answers. {_ends(intervals.values())}"
    )
    return [Table("Against the best single view", columns, lines, note, in_terminal=True)]


def _ends(intervals: Iterable[Difference]) -> str:
    """What the ends of the intervals mean."""
    with_ends = [each.samples for each in intervals if each.low is not None]
    if not with_ends:
        return "All samples are of one image: there is no interval."
    samples = with_ends[0]
    text = (
        f"From, to: {percent(LEVEL, 0)} of {DRAWS:,} paired resamples of "
        f"{count_of(samples, 'sample')}."
    )
    if samples < FEW_SAMPLES:
        text += f" With fewer than {FEW_SAMPLES} samples the interval is too narrow to rely on."
    return text


def speeds(summaries: Sequence[Summary]) -> Table:
    """Tokens per second, time to first token, peak memory."""
    note = (
        "Tokens over decoding seconds, pooled, and the speeds that 50 % and 95 % of the answers "
        "reach; seconds within which 50 % and 95 % of the answers begin."
    )
    speed, seconds = partial(positive, digits=1), partial(positive, digits=3)
    columns = (
        ("tokens/s", "tokens_per_second", speed),
        ("p50", "tokens_per_second_p50", speed),
        ("p95", "tokens_per_second_p95", speed),
        ("first token p50, s", "first_token_p50", seconds),
        ("p95, s", "first_token_p95", seconds),
        ("peak memory, MiB", "peak_memory_bytes", lambda peak: f"{peak / 2**20:.0f}"),
    )
    return of_methods("Speed", note, columns, summaries)


def speed_ups(summaries: Sequence[Summary]) -> Table:
    """Speed-ups over plain decoding: decoding alone, and end to end."""
    note = (
        "Measured against plain decoding of the same questions: decoding alone, and from question "
        "to last token. Paired: mean over answers; global: quotient of sums."
    )
    columns = (
        ("decoding, paired", "speed_up_paired", positive),
        ("global", "speed_up_global", positive),
        ("end to end, paired", "end_to_end_paired", positive),
        ("global", "end_to_end_global", positive),
    )
    drafting = [summary for summary in summaries if summary["method"] != PLAIN]
    return of_methods("Speed-up", note, columns, drafting)


def stages(run: BenchRun) -> Table:
    """Mean seconds of an answer by images, method and stage."""
    first = [row for row in run.of(*run.decoding) if row.turn == 0]
    groups = grouped(first, lambda row: (row.images, run.decoding.index(row.method)))
    lines = []
    for images, method in sorted(groups):
        seconds = list(metrics.stage_seconds(groups[images, method]).values())
        cells = (positive(value, 3) for value in (*seconds, sum(seconds)))
        lines.append((count_of(images, "image"), run.decoding[method], *cells))
    note = "Mean seconds of an answer; first turns alone, which prefill the whole prompt."
    columns = ("images", "method", *metrics.STAGES, "total")
    return Table("Seconds by stage", columns, lines, note, text_columns=2)


def identical_answers(run: BenchRun) -> Table:
    """The number of answers of each method that equal plain decoding's."""
    lines = []
    for name in run.drafting:
        compared = [row for row in run.of(name) if row.identical is not None]
        outcomes = [row.divergence["outcome"] for row in compared if row.divergence]
        counts = len(compared), sum(row.identical is True for row in compared)
        rate = percent(metrics.identical_rate(compared), 2)
        bugs = outcomes.count("near-tie"), outcomes.count("bug")
        lines.append((name, *map(str, counts), rate, *map(str, bugs)))
    columns = ("method", "compared", "identical", "rate", "near-ties", "bugs")
    note = (
        "Answers with the token ids of plain decoding. A later turn is not compared if an earlier "
        "answer of its conversation differed."
    )
    return Table("Identical to plain decoding", columns, lines, note, in_terminal=True)


def divergences(run: BenchRun) -> Table:
    """A table of the answers that differ, with the first differing token and its logit gap."""
    lines = [_divergence_line(pair) for pair in diverging(run)]
    columns = ("sample", "method", "outcome", "plain", "drafted", "turn", "token", "margin")
    note = "Margin: the gap between the two largest logits of plain decoding at that token."
    return Table("Divergences", columns, lines, note, text_columns=5)


def diverging(run: BenchRun) -> list[Pair]:
    """The answers that differ from plain decoding's, each with the plain one."""
    return [pair for pair in metrics.pairs(run.of(*run.drafting), run.plain) if pair[0].divergence]


def _divergence_line(pair: Pair) -> tuple[str, ...]:
    row, plain = pair
    assert row.divergence
    position = row.divergence["position"]
    return (
        row.sample,
        row.method,
        row.divergence["outcome"],
        _piece(plain, position),
        _piece(row, position),
        str(row.turn),
        str(position),
        f"{row.divergence['margin']:.2e}",
    )


def _piece(row: Row, position: int) -> str:
    return repr(row.pieces[position]) if position < len(row.pieces) else "(end)"


def facts(run: BenchRun) -> Table:
    """Share of facts (statements that can be checked) that the answers get right, by task.

    The columns: target and draft, each with the images and with grey ones in their place.
    """
    methods = [name for name in KNOWLEDGE_COLUMNS if name in run.methods]
    rows = [row for row in run.of(*methods) if row.facts]
    groups = grouped(rows, lambda row: row.task)
    lines = []
    for task, some in ({**groups, "all": rows} if rows else {}).items():
        by_method = grouped(some, lambda row: row.method)
        counts = (metrics.facts_right(by_method.get(name, ())) for name in methods)
        lines.append((task, *(share(*count) for count in counts)))
    note = "Facts right over facts asked; blank: with grey in place of every image."
    columns = ("task", *(KNOWLEDGE_COLUMNS[name] for name in methods))
    return Table("Facts right", columns, lines, note, in_terminal=True)
