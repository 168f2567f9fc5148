"""The tables of a run: block efficiency, time, equality with plain decoding, settings."""

import re
from collections.abc import Sequence
from typing import Any

from mmspec.checkpoints.quantization import computed
from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.suite.confidence import DRAWS, LEVEL, difference
from mmspec_bench.suite.methods import is_single_view
from mmspec_bench.suite.metrics import Summary, block_efficiency
from mmspec_bench.suite.rows import PLAIN, AnswerRow
from mmspec_bench.table import (
    Table,
    count_of,
    number,
    of_methods,
    percent,
    positive,
    signed_percent,
)

FEW_SAMPLES = 20
"""Number of samples below which bootstrap intervals are too narrow."""
UNSHOWN = ("skipped", "resumed", "problem")
"""Entries of the provenance that the table of settings leaves out."""
_NUMBER = re.compile(r"\d+")


def drafting(summaries: Sequence[Summary]) -> Table:
    """Block efficiency, acceptance, speed-up and equal answers, one line for each method."""
    note = (
        "Tokens per round, the target's own token included: over all rounds (micro), and the mean "
        "of the answers' values (macro). Accepted: of the drafted tokens. MBSU: the speed-up if "
        "reading parameters were all that takes time; no measured time. Times plain: decoding "
        "speed over that of none, mean over answers. Same tokens: answers with the token ids of "
        "none; a later turn is not compared if an earlier answer differed."
    )
    columns = (
        ("answers", lambda one: str(one["answers"])),
        ("tokens per round", lambda one: positive(one["block_efficiency"])),
        ("macro", lambda one: positive(one["macro_block_efficiency"])),
        ("accepted", lambda one: percent(one["acceptance_rate"])),
        ("MBSU", lambda one: positive(one["mbsu"])),
        ("times plain", lambda one: positive(one["speed_up_paired"])),
        ("same tokens", lambda one: percent(one["identical"])),
    )
    return of_methods("Drafting", note, columns, summaries)


def time(summaries: Sequence[Summary]) -> Table:
    """Tokens per second, time to first token, speed-ups over plain decoding, peak memory."""
    note = (
        "Tokens over decoding seconds, pooled, and the speeds that 50 % and 95 % of the answers "
        "reach; seconds within which half of the answers begin. Speed-ups are over plain decoding "
        "of the same questions: decoding alone, and from question to last token. Paired: mean over "
        "answers; global: quotient of sums. Peak memory: of a GPU, else of the process so far."
    )
    columns = (
        ("tokens/s", lambda one: positive(one["tokens_per_second"], 1)),
        ("p50", lambda one: positive(one["tokens_per_second_p50"], 1)),
        ("p95", lambda one: positive(one["tokens_per_second_p95"], 1)),
        ("first token, s", lambda one: positive(one["first_token_p50"], 3)),
        ("decoding, paired", lambda one: positive(one["speed_up_paired"])),
        ("global", lambda one: positive(one["speed_up_global"])),
        ("end to end, paired", lambda one: positive(one["end_to_end_paired"])),
        ("global", lambda one: positive(one["end_to_end_global"])),
        ("peak memory, MiB", lambda one: f"{one['peak_memory_bytes'] / 2**20:.0f}"),
    )
    return of_methods("Time", note, columns, summaries)


def by_images(run: BenchRun) -> Table:
    """Block efficiency by number of images, over all tasks."""
    groups = grouped(run.rows, lambda row: (row.method, row.images))
    counts = sorted({row.images for row in run.rows})
    lines = [
        (name, *(positive(block_efficiency(groups.get((name, count), ()))) for count in counts))
        for name in run.drafting
    ]
    columns = ("method", *(count_of(count, "image") for count in counts))
    note = "Tokens per round (micro) by images in the conversation so far, all tasks and turns."
    return Table("By images", columns, lines, note, in_terminal=True)


def by_task(lines: Sequence[Summary]) -> Table:
    """What every drafting method gains on each task and on all, with intervals."""
    drafting = [line for line in lines if line["method"] != PLAIN]
    cells = [
        (
            *(line["task"], line["method"], str(line["answers"])),
            *(number(line[name]) for name in ("block_efficiency", "low", "high")),
            *map(positive, (line["nodes_per_round"], line["speed_up_paired"])),
            percent(line["identical"]),
        )
        for line in drafting
    ]
    counts = [line["samples"] for line in drafting if line["low"] is not None]
    note = (
        "Tokens per round (micro), all turns. Nodes: drafted tokens in a round. Times plain: "
        f"decoding speed over that of none, mean over answers. {_ends(counts, 'resamples')}"
    )
    columns = (
        *("task", "method", "answers", "tokens per round", "from", "to"),
        *("nodes", "times plain", "same tokens"),
    )
    return Table("By task", columns, cells, note, text_columns=2, in_terminal=True)


def against_best_view(run: BenchRun) -> Table:
    """Other methods against the best single view, with intervals; empty if either is missing."""
    title = "Against the best single view"
    values = {name: block_efficiency(run.of(name)) for name in run.drafting}
    views = [name for name in run.drafting if values[name] and is_single_view(name)]
    best = max(views, key=lambda name: values[name], default="")
    intervals = {
        name: interval
        for name in run.drafting
        if best not in ("", name) and (interval := difference(run.of(name), run.of(best)))
    }
    if not intervals:
        return Table(title, (), ())
    columns = ("method", "tokens per round", f"than {best}", "from", "to")
    lines = [
        (name, number(values[name]), *map(signed_percent, interval[1:]))
        for name, interval in intervals.items()
    ]
    counts = [each.samples for each in intervals.values() if each.low is not None]
    note = (
        f"Tokens per round (micro) beside the {number(values[best])} of {best}, the best single "
        f"view, which was chosen on the same answers. {_ends(counts, 'paired resamples')}"
    )
    return Table(title, columns, lines, note, in_terminal=True)


def _ends(counts: Sequence[int], drawn: str) -> str:
    """What the ends of intervals mean; counts: the numbers of their samples."""
    if not counts:
        return "All samples are of one image: there is no interval."
    few, most = min(counts), max(counts)
    samples = count_of(most, "sample") if few == most else f"{few} to {most} samples"
    text = f"From, to: {percent(LEVEL, 0)} of {DRAWS:,} {drawn} of {samples}."
    if few < FEW_SAMPLES:
        text += f" With fewer than {FEW_SAMPLES} samples the interval is too narrow to rely on."
    return text


def by_position(summaries: Sequence[Summary]) -> Table:
    """The acceptance rate of each position in a draft."""
    shares = {
        summary["method"]: (
            summary["acceptance_by_position"],
            summary["conditional_acceptance_by_position"][1:],
        )
        for summary in summaries
        if summary["acceptance_by_position"]
    }
    longest = max((len(every) for every, _ in shares.values()), default=0)
    tokens = [f"token {i}" for i in range(1, longest + 1)]
    conditional = [f"{i} after {i - 1}" for i in range(2, longest + 1)]
    note = (
        "Of the rounds that drafted token i, the share that accepted it; of those that accepted "
        "all tokens before it, the share that accepted it too. In trees: a token of level i."
    )
    lines = [
        (name, *_padded(every, longest), *_padded(after, longest - 1))
        for name, (every, after) in shares.items()
    ]
    columns = ("method", *tokens, *conditional)
    return Table("Acceptance by position in the draft", columns, lines, note)


def _padded(shares: Sequence[float], count: int) -> list[str]:
    return [*map(percent, shares), *[""] * (count - len(shares))]


def divergences(run: BenchRun) -> Table:
    """The answers that differ, with the first differing token and its logit gap."""
    plain = {row.key: row for row in run.plain}
    lines = [
        (
            row.sample,
            row.method,
            row.divergence["outcome"],
            *(_piece(each, row.divergence["position"]) for each in (plain.get(row.key), row)),
            str(row.turn),
            str(row.divergence["position"]),
            f"{row.divergence['margin']:.2e}",
        )
        for row in run.of(*run.drafting)
        if row.divergence
    ]
    columns = ("sample", "method", "outcome", "plain", "drafted", "turn", "token", "margin")
    note = "Margin: the gap between the two largest logits of plain decoding at that token."
    return Table("Divergences", columns, lines, note, text_columns=5)


def _piece(row: AnswerRow | None, position: int) -> str:
    if row is None or position >= len(row.pieces):
        return "(end)"
    return repr(row.pieces[position])


def notes(run: BenchRun) -> Table:
    """The notes shown with answers; those that differ only in numbers are counted together."""
    pairs = [(row.method, note) for row in run.rows for note in row.notes]
    groups = grouped(pairs, lambda pair: (pair[0], _NUMBER.sub("#", pair[1])))
    lines = [(*pairs[0], str(len(pairs))) for pairs in groups.values()]
    note = "Notes with other numbers are counted with the first."
    return Table("Notes", ("method", "note", "answers"), lines, note, text_columns=2)


def skipped_samples(run: BenchRun) -> Table:
    """The broken samples that --skip-bad left out, with reasons."""
    entries = [entry for provenance in run.provenances for entry in provenance["skipped"]]
    lines = [(entry["sample"], entry["reason"]) for entry in entries]
    return Table("Samples left out", ("sample", "reason"), lines, text_columns=2)


def settings(run: BenchRun) -> Table:
    """Every entry of the provenance; one that shards do not share has a line for each."""
    lines = [
        (name.replace("_", " "), cell)
        for name in dict.fromkeys(name for each in run.provenances for name in each)
        if name not in UNSHOWN
        for cell in dict.fromkeys(_cell(each.get(name)) for each in run.provenances)
        if cell
    ]
    return Table("Settings", ("", ""), lines, text_columns=2)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        entries = ((name, _cell(entry)) for name, entry in value.items())
        return ", ".join(f"{name} {entry}" for name, entry in entries if entry)
    if isinstance(value, list):
        return " ".join(map(_cell, value))
    return "" if value is None else str(value)


def title(run: BenchRun) -> str:
    """Models, backend, device and dtype, such as `mini + mini-draft on torch, cpu, float32`."""
    models = run.settings["models"]
    names = " + ".join(model["name"] for model in models.values() if model)
    kind = computed(run.settings["dtype"], models["target"].get("quantize", "none"))
    return f"{names} on {run.settings['backend']}, {run.settings['device']}, {kind}"
