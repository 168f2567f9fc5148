"""Tables of answer checks: equality with plain decoding, and correct facts."""

from collections.abc import Sequence

from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.report.table import Table, percent, share
from mmspec_bench.suite.metrics import Pair, facts_right, identical_rate, pairs
from mmspec_bench.suite.rows import PLAIN, Row

KNOWLEDGE_COLUMNS = {
    PLAIN: "target",
    f"{PLAIN}:blank": "target, blank",
    "draft": "draft",
    "draft:blank": "draft, blank",
}
"""Column names of the methods that show what a model knows without the images."""


def identical_answers(run: BenchRun) -> Table:
    """The number of answers of each method that equal plain decoding's."""
    groups = grouped(run.rows, lambda row: row.method)
    lines = [_identical_line(name, groups[name]) for name in run.drafting]
    columns = ("method", "compared", "identical", "rate", "near-ties", "bugs")
    note = (
        "Answers with the token ids of plain decoding. A later turn is not compared if an earlier "
        "answer of its conversation differed."
    )
    return Table("Identical to plain decoding", columns, lines, note, in_terminal=True)


def _identical_line(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    compared = [row for row in rows if row.identical is not None]
    outcomes = [row.divergence["outcome"] for row in compared if row.divergence]
    return (
        name,
        str(len(compared)),
        str(sum(row.identical is True for row in compared)),
        percent(identical_rate(rows), 2),
        str(outcomes.count("near-tie")),
        str(outcomes.count("bug")),
    )


def divergences(run: BenchRun) -> Table:
    """A table of the answers that differ, with the first differing token and its logit gap."""
    lines = [_divergence_line(pair) for pair in diverging(run)]
    columns = ("sample", "method", "outcome", "plain", "drafted", "turn", "token", "margin")
    note = "Margin: the gap between the two largest logits of plain decoding at that token."
    return Table("Divergences", columns, lines, note, text_columns=5)


def diverging(run: BenchRun) -> list[Pair]:
    """The answers that differ from plain decoding's, each with the plain one."""
    return [pair for pair in pairs(run.of(*run.drafting), run.plain) if pair[0].divergence]


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
    """Correct facts by task, for target and draft, with the images and with grey ones."""
    methods = [name for name in KNOWLEDGE_COLUMNS if name in run.methods]
    rows = [row for row in run.of(*methods) if row.facts]
    groups = grouped(rows, lambda row: row.task)
    lines = [
        (
            task,
            *(share(*facts_right(row for row in some if row.method == name)) for name in methods),
        )
        for task, some in ({**groups, "all": rows} if rows else {}).items()
    ]
    note = "Facts right over facts asked; blank: with grey in place of every image."
    columns = ("task", *(KNOWLEDGE_COLUMNS[name] for name in methods))
    return Table("Facts right", columns, lines, note, in_terminal=True)
