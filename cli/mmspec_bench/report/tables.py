"""The tables of a run: block efficiency, by images and tasks, equality with plain decoding."""

from collections.abc import Callable, Sequence
from typing import Any

from mmspec.checkpoints.quantization import number_type
from mmspec_bench.report.bench_run import ALL, BenchRun
from mmspec_bench.suite import metrics
from mmspec_bench.suite.methods import is_single_view
from mmspec_bench.suite.metrics import DRAWS, LEVEL, Summary
from mmspec_bench.suite.rows import PLAIN, PROVENANCE, AnswerRow
from mmspec_bench.table import Table, number, percent, positive
from mmspec_terminal.wording import quantity

Column = tuple[str, str, Callable[[Any], str]]
"""The heading of a column, the measure in it, and how its values are shown."""
DRAFTING: tuple[Column, ...] = (
    ("method", "method", str),
    ("answers", "answers", str),
    ("tokens per round", "block_efficiency", positive),
    ("macro", "macro_block_efficiency", positive),
    ("accepted", "acceptance_rate", percent),
    ("MBSU", "mbsu", positive),
    ("times plain", "speed_up_paired", positive),
    ("same tokens", "identical", percent),
)
BY_TASK: tuple[Column, ...] = (
    ("task", "task", str),
    *DRAFTING[:2],
    ("tokens per round", "block_efficiency", number),
    ("from", "low", number),
    ("to", "high", number),
    ("nodes", "nodes_per_round", positive),
    *DRAFTING[-2:],
)
FEW_SAMPLES = 20
"""Number of samples below which bootstrap intervals are too narrow."""


def _of_measures(
    title: str, columns: Sequence[Column], summaries: Sequence[Summary], note: str
) -> Table:
    cells = [tuple(show(line[name]) for _, name, show in columns) for line in summaries]
    return Table(title, [heading for heading, _, _ in columns], cells, note)


def drafting(summaries: Sequence[Summary]) -> Table:
    """Block efficiency, acceptance, speed-up and equal answers, one line for each method."""
    note = (
        "Tokens per round, the target's own token included: over all rounds (micro), and the mean "
        "of the answers' values (macro). Accepted: of the drafted tokens. MBSU: the speed-up if "
        "reading parameters were all that takes time; no measured time. Times plain: decoding "
        "speed over that of none, mean over answers. Same tokens: answers with the token ids of "
        "none; a later turn is not compared if an earlier answer differed."
    )
    return _of_measures("Drafting", DRAFTING, summaries, note)


def by_images(run: BenchRun) -> Table:
    """Block efficiency by number of images, over all tasks, with intervals."""
    counts = sorted({row.images for row in run.rows})

    def cell(name: str, count: int) -> str:
        rows = (row for row in run.of(name) if row.images == count)
        _, value, low, high = metrics.tokens_per_round(rows)
        return positive(value) + ("" if low is None else f" [{low:.2f}..{high:.2f}]")

    lines = [(name, *(cell(name, count) for count in counts)) for name in run.drafting]
    columns = ("method", *(quantity(count, "image") for count in counts))
    note = (
        "Tokens per round (micro) by images in the conversation so far, all tasks and turns, and "
        f"{percent(LEVEL, '.0%')} of {DRAWS:,} resamples."
    )
    return Table("By images", columns, lines, note)


def by_task(lines: Sequence[Summary]) -> Table:
    """What every drafting method gains on each task and on all, with intervals."""
    drafting = [line for line in lines if line["method"] != PLAIN]
    counts = [line["samples"] for line in drafting if line["low"] is not None]
    note = (
        "Tokens per round (micro), all turns. Nodes: drafted tokens in a round. Times plain: "
        f"decoding speed over that of none, mean over answers. {_ends(counts, 'resamples')}"
    )
    return _of_measures("By task", BY_TASK, drafting, note)


def against_best_view(run: BenchRun) -> Table:
    """Other methods against the best single view, with intervals; no rows if either is missing."""
    values = {name: metrics.block_efficiency(run.of(name)) for name in run.drafting}
    views = [name for name in run.drafting if values[name] and is_single_view(name)]
    best = max(views, key=lambda name: values[name], default="")
    intervals = {
        name: interval
        for name in run.drafting
        if best not in ("", name) and (interval := metrics.difference(run.of(name), run.of(best)))
    }
    columns = ("method", "tokens per round", f"than {best}", "from", "to")
    lines = [
        (name, number(values[name]), *(percent(value, "+.1%") for value in interval[1:]))
        for name, interval in intervals.items()
    ]
    counts = [it.samples for it in intervals.values() if it.low is not None]
    note = (
        f"Tokens per round (micro) beside the {number(values.get(best))} of {best}, the best "
        f"single view, which was chosen on the same answers. {_ends(counts, 'paired resamples')}"
    )
    return Table("Against the best single view", columns, lines, note)


def _ends(counts: Sequence[int], resamples: str) -> str:
    """What the ends of intervals mean; counts: the numbers of their samples."""
    if not counts:
        return "All samples are of one image: there is no interval."
    few, most = min(counts), max(counts)
    samples = quantity(most, "sample") if few == most else f"{few} to {most} samples"
    text = f"From, to: {percent(LEVEL, '.0%')} of {DRAWS:,} {resamples} of {samples}."
    if few < FEW_SAMPLES:
        text += f" With fewer than {FEW_SAMPLES} samples the interval is too narrow to rely on."
    return text


def divergences(run: BenchRun) -> Table:
    """The answers that differ, with the first differing token and its logit gap."""
    plain, lines = {row.key: row for row in run.of(PLAIN)}, []
    for row in run.of(*run.drafting):
        if row.divergence:
            at, margin = row.divergence["position"], row.divergence["margin"]
            pieces = _piece(plain.get(row.key), at), _piece(row, at)
            place = str(row.turn), str(at), "" if margin is None else f"{margin:.2e}"
            lines.append((row.sample, row.method, row.divergence["outcome"], *pieces, *place))
    columns = ("sample", "method", "outcome", "plain", "drafted", "turn", "token", "margin")
    note = "Margin: the gap between the two largest logits of plain decoding at that token."
    return Table("Divergences", columns, lines, note)


def _piece(row: AnswerRow | None, position: int) -> str:
    if row is None or position >= len(row.pieces):
        return "(end)"
    return repr(row.pieces[position])


def title(run: BenchRun) -> str:
    """What was run, such as `mini + mini-draft on torch, cpu, float32: 9 questions of 2 tasks`."""
    models = run.settings["models"]
    names = " + ".join(model["name"] for model in models.values() if model)
    kind = number_type(run.settings["dtype"], run.settings["quantize"])
    place = f"{names} on {run.settings['backend']}, {run.settings['device']}, {kind}"
    questions = quantity(len({row.key for row in run.rows}), "question")
    tasks, methods = quantity(len(run.tasks), "task"), quantity(len(run.methods), "method")
    absent = len(run.settings["skipped"])
    left_out = f" {quantity(absent, 'sample')} left out, as {PROVENANCE} says." if absent else ""
    note = " The target repeats given answers: no seconds are shown." if run.is_replay else ""
    return f"{place}: {questions} of {tasks}, {methods}.{left_out}{note}"


def report_tables(run: BenchRun, lines: Sequence[Summary]) -> list[Table]:
    """All tables of a report that have rows; lines: each method's measures, overall and by task."""
    tables = [
        drafting([line for line in lines if line["task"] == ALL]),
        by_images(run),
        against_best_view(run),
        by_task(lines),
        divergences(run),
    ]
    return [table for table in tables if table.rows]
