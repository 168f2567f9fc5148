"""Answers as HTML, with the tokens that were drafted and kept in colour (IbED, figure 4)."""

from collections.abc import Iterator, Sequence
from html import escape

from mmspec.bench.report.merge import Run, grouped
from mmspec.bench.report.table import several
from mmspec.bench.suite.metrics import block_efficiency
from mmspec.bench.suite.rows import PLAIN, Row

STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --quiet: #666; --line: #ddd;
  --kept: #d3e6f8; --edge: #2171b5; --wrong: #b00020; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e4e4; --paper: #16181c; --quiet: #a0a0a0;
  --line: #3a3d44; --kept: #1d4263; --edge: #6baed6; --wrong: #ff8a80; } }
body { color: var(--ink); background: var(--paper); font: 16px/1.6 system-ui, sans-serif;
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; }
.legend { border: 1px solid var(--line); border-radius: 6px; padding: .6rem .9rem; }
.answer { border-top: 1px solid var(--line); padding: .6rem 0; display: grid;
  grid-template-columns: 9rem 1fr; gap: 0 1rem; }
.method { font-weight: 600; overflow-wrap: anywhere; }
.counts { color: var(--quiet); font-size: .8rem; font-weight: 400; display: block; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; }
mark { color: inherit; background: var(--kept); border-bottom: 2px solid var(--edge);
  border-radius: 3px 3px 0 0; margin-right: 1px; }
.parted { color: var(--wrong); font-weight: 600; }
@media (max-width: 40rem) { .answer { grid-template-columns: 1fr; } }
"""

LEGEND = (
    '<p class="legend"><mark>Coloured and underlined</mark>: tokens that were drafted and that '
    "the target kept, one stretch for each round. Plain: the target&#x27;s own tokens. Rest the "
    "pointer on a stretch to see how many tokens were drafted.</p>"
)


def page(run: Run, samples: int) -> str:
    """A page without scripts or anything outside it: the first samples of each task."""
    shown = [row for rows in _first(run, samples).values() for row in rows]
    answers = "\n".join(_asked(rows) for rows in grouped(shown, lambda row: row.key).values())
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Accepted tokens</title>\n<style>{STYLE}</style>\n"
        f"<h1>Accepted tokens by method</h1>\n{LEGEND}\n{answers}\n</html>\n"
    )


def _first(run: Run, samples: int) -> dict[str, list[Row]]:
    """By task, the rows of its first samples, plain decoding's left out where others drafted."""
    wanted = run.drafting or [PLAIN]
    tasks = grouped(run.of(*wanted), lambda row: row.task)
    for rows in tasks.values():
        names = list(dict.fromkeys(row.sample for row in rows))[:samples]
        rows[:] = [row for row in rows if row.sample in names]
    return tasks


def _asked(rows: Sequence[Row]) -> str:
    first = rows[0]
    about = f"{first.sample}, turn {first.turn + 1}, {several(first.images, 'image')}"
    return "\n".join([f"<h2>{escape(about)}</h2>", *map(_answer, rows)])


def _answer(row: Row) -> str:
    counts = (
        f"{block_efficiency([row]):.2f} tokens per round, {row.accepted} of "
        f"{several(row.emitted, 'token')} drafted"
    )
    parted = '<span class="parted">differs from plain decoding</span>' if row.divergence else ""
    return (
        f'<div class="answer"><div class="method">{escape(row.method)}'
        f'<span class="counts">{counts}</span>{parted}</div>'
        f'<div class="text">{"".join(_coloured(row))}</div></div>'
    )


def _coloured(row: Row) -> Iterator[str]:
    """Round by round: what was kept of the draft, marked, then the target's own."""
    start = 0
    for number, each in enumerate(row.rounds, start=1):
        kept, end = start + each.accepted, start + each.emitted
        if each.accepted:
            about = f"round {number}: {each.accepted} of {each.drafted} drafted tokens kept"
            yield f'<mark title="{about}">{escape("".join(row.pieces[start:kept]))}</mark>'
        yield escape("".join(row.pieces[kept:end]))
        start = end
