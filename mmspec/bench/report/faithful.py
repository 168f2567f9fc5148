"""Tables of what the answers say: the same tokens as plain decoding, and facts."""

from collections.abc import Iterator, Sequence

from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.table import Table, percent, share
from mmspec.bench.suite.metrics import Pair, facts_right, identical_rate, pairs
from mmspec.bench.suite.rows import PLAIN, Row

KNOWING = {
    PLAIN: "target",
    f"{PLAIN}:blank": "target, blank",
    "draft": "draft",
    "draft:blank": "draft, blank",
}
"""The methods that tell what a model knows, and what a table calls them."""


def same_tokens(run: Run) -> Table:
    """How many answers are plain decoding's."""
    groups = grouped(run.rows, lambda row: row.method)
    lines = [_same(name, groups[name]) for name in run.drafting]
    columns = ("method", "compared", "identical", "rate", "near-ties", "bugs")
    note = (
        "Answers whose token ids are those of plain decoding. A later turn is not compared where "
        "an earlier answer of its conversation differed."
    )
    return Table("Same tokens as plain decoding", columns, lines, note, brief=True)


def _same(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
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


def divergences(run: Run) -> Table:
    """Every answer that differs, with its place and the logit gap there."""
    lines = [_divergence(pair) for pair in differing(run)]
    columns = ("sample", "method", "outcome", "plain says", "it says", "turn", "token", "margin")
    note = "Margin: the gap between the two largest logits of plain decoding at that token."
    return Table("Divergences", columns, lines, note, words=5)


def differing(run: Run) -> Iterator[Pair]:
    """Answers that differ from plain decoding's, each with that."""
    return (pair for pair in pairs(run.of(*run.drafting), run.plain) if pair[0].divergence)


def _divergence(pair: Pair) -> tuple[str, ...]:
    row, plain = pair
    found = row.divergence or {}
    place = found["position"]
    said = (_piece(each, place) for each in (plain, row))
    margin = f"{found['margin']:.2e}"
    return (
        *(row.sample, row.method, found["outcome"]),
        *(*said, str(row.turn), str(place), margin),
    )


def _piece(row: Row, place: int) -> str:
    return repr(row.pieces[place]) if place < len(row.pieces) else "(end)"


def facts(run: Run) -> Table | None:
    """Facts right by task, of target and draft, with the images and with grey; None without any."""
    known = [name for name in KNOWING if name in run.methods]
    told = [row for row in run.of(*known) if row.facts]
    if not told:
        return None
    groups = grouped(told, lambda row: (row.task, row.method))
    lines = [
        (task, *(share(*facts_right(groups.get((task, name), ()))) for name in known))
        for task in dict.fromkeys(row.task for row in told)
    ]
    every = grouped(told, lambda row: row.method)
    lines.append(("all", *(share(*facts_right(every.get(name, ()))) for name in known)))
    note = "Facts stated rightly over facts asked for; blank: with grey in place of every image."
    columns = ("task", *(KNOWING[name] for name in known))
    return Table("Facts right", columns, lines, note, brief=True)
