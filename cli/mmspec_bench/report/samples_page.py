"""Writes answers as HTML, with accepted tokens in colour (IbED, figure 4)."""

from collections.abc import Iterator, Sequence
from html import escape

from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.report.table import count_of
from mmspec_bench.suite.metrics import block_efficiency
from mmspec_bench.suite.rows import PLAIN, Row

STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --quiet: #666; --line: #ddd;
  --accepted: #d3e6f8; --edge: #2171b5; --wrong: #b00020; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e4e4; --paper: #16181c; --quiet: #a0a0a0;
  --line: #3a3d44; --accepted: #1d4263; --edge: #6baed6; --wrong: #ff8a80; } }
body { color: var(--ink); background: var(--paper); font: 16px/1.6 system-ui, sans-serif;
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; }
.legend { border: 1px solid var(--line); border-radius: 6px; padding: .6rem .9rem; }
.answer { border-top: 1px solid var(--line); padding: .6rem 0; display: grid;
  grid-template-columns: 9rem 1fr; gap: 0 1rem; }
.method { font-weight: 600; overflow-wrap: anywhere; }
.counts { color: var(--quiet); font-size: .8rem; font-weight: 400; display: block; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; }
mark { color: inherit; background: var(--accepted); border-bottom: 2px solid var(--edge);
  border-radius: 3px 3px 0 0; margin-right: 1px; }
.differs { color: var(--wrong); font-weight: 600; }
@media (max-width: 40rem) { .answer { grid-template-columns: 1fr; } }
"""

LEGEND = (
    '<p class="legend"><mark>Coloured and underlined</mark>: drafted tokens that the target '
    "accepted, one stretch for each round. Plain: the target&#x27;s own tokens. Point at a stretch "
    "to see how many tokens were drafted.</p>"
)


def samples_page(run: BenchRun, samples: int) -> str:
    """A page without scripts or links: the answers to the first samples of each task."""
    names = {
        name
        for rows in grouped(run.rows, lambda row: row.task).values()
        for name in list(dict.fromkeys(row.sample for row in rows))[:samples]
    }
    rows = [row for row in run.of(*(run.drafting or [PLAIN])) if row.sample in names]
    answers = "\n".join(map(_question, grouped(rows, lambda row: row.key).values()))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Accepted tokens</title>\n<style>{STYLE}</style>\n"
        f"<h1>Accepted tokens by method</h1>\n{LEGEND}\n{answers}\n</html>\n"
    )


def _question(rows: Sequence[Row]) -> str:
    first = rows[0]
    heading = f"{first.sample}, turn {first.turn + 1}, {count_of(first.images, 'image')}"
    return "\n".join([f"<h2>{escape(heading)}</h2>", *map(_answer, rows)])


def _answer(row: Row) -> str:
    counts = (
        f"{block_efficiency([row]):.2f} tokens per round, {row.accepted} of "
        f"{count_of(row.emitted, 'token')} drafted"
    )
    differs = '<span class="differs">differs from plain decoding</span>' if row.divergence else ""
    return (
        f'<div class="answer"><div class="method">{escape(row.method)}'
        f'<span class="counts">{counts}</span>{differs}</div>'
        f'<div class="text">{"".join(_coloured(row))}</div></div>'
    )


def _coloured(row: Row) -> Iterator[str]:
    """The spans of each round: the accepted tokens, marked, then the target's own."""
    start = 0
    for i, counts in enumerate(row.rounds, start=1):
        middle, end = start + counts.accepted, start + counts.emitted
        if counts.accepted:
            title = f"round {i}: {counts.accepted} of {counts.drafted} drafted tokens accepted"
            yield f'<mark title="{title}">{escape("".join(row.pieces[start:middle]))}</mark>'
        yield escape("".join(row.pieces[middle:end]))
        start = end
