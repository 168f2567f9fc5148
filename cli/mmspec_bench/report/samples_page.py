"""Writes `samples.html`: pictures, questions and answers, with accepted tokens marked.

The page has no scripts and asks for nothing outside of itself.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from io import BytesIO

from mmspec.ground.errors import UsageError
from mmspec.prompt.conversation import Message
from mmspec.prompt.images import Picture
from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.suite.metrics import block_efficiency
from mmspec_bench.suite.rows import PLAIN, Row
from mmspec_bench.suite.samples import Question
from mmspec_bench.suite.sources import suite_samples
from mmspec_bench.table import count_of

SAMPLES = "samples.html"
SHOWN = 2
"""Samples of each task on the page, the first ones."""
PIXELS = 336
"""The most pixels of a picture's side on the page."""

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; }
img { max-width: 100%; height: auto; margin: 0 .5rem .5rem 0; vertical-align: top; }
.question { font-weight: 600; }
.answer { border-top: 1px solid #8886; padding: .6rem 0; display: grid;
  grid-template-columns: 10rem 1fr; gap: 0 1rem; }
.method { font-weight: 600; overflow-wrap: anywhere; }
.counts { font-size: .8rem; font-weight: 400; display: block; }
.text, .question { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; }
mark { color: inherit; background: #2171b544; border-bottom: 2px solid #2171b5; margin-right: 1px; }
@media (max-width: 40rem) { .answer { grid-template-columns: 1fr; } }
"""

LEGEND = (
    "<p><mark>Coloured and underlined</mark>: drafted tokens that the target accepted, one stretch "
    "for each round. Plain: the target&#x27;s own tokens.</p>"
)


def samples_page(run: BenchRun, shown: int = SHOWN) -> str:
    """A page with the first samples of each task, read from the suite again.

    Raises MmspecError if the suite is not on this machine, or the run is of an older version.
    """
    rows = [row for row in run.of(*(run.drafting or [PLAIN])) if row.sample in _first(run, shown)]
    questions = _questions(run, {row.sample for row in rows})
    samples = "\n".join(_sample(each, questions) for each in grouped(rows, _name).values())
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Samples</title>\n<style>{STYLE}</style>\n"
        f"<h1>Samples</h1>\n{LEGEND}\n{samples}\n</html>\n"
    )


def _name(row: Row) -> str:
    return row.sample


def _first(run: BenchRun, shown: int) -> set[str]:
    tasks = grouped(run.rows, lambda row: row.task).values()
    return {name for rows in tasks for name in list(dict.fromkeys(map(_name, rows)))[:shown]}


def _questions(run: BenchRun, names: set[str]) -> dict[tuple[str, int], Question]:
    """The questions of the named samples, by sample and turn."""
    size = run.settings.get("image_size")
    if size is None:
        raise UsageError("the run is of an older version and does not say the size of its pictures")
    chosen = {name: run.settings[name] for name in ("limit", "turns", "tasks", "seed")}
    samples = suite_samples(run.settings["suite"], size, **chosen)
    return {
        (sample.name, turn): question
        for sample in samples
        if sample.name in names
        for turn, question in enumerate(sample.read())
    }


def _sample(rows: Sequence[Row], questions: Mapping[tuple[str, int], Question]) -> str:
    turns = grouped(rows, lambda row: row.turn)
    parts = [f"<h2>{escape(rows[0].sample)}</h2>"]
    for turn, answers in turns.items():
        parts += [*_message(questions[rows[0].sample, turn].message), *map(_answer, answers)]
    return "\n".join(parts)


def _message(message: Message) -> Iterator[str]:
    """The pictures of a message, then its text."""
    yield from (_picture(picture) for picture in message.pictures)
    words = "".join(part for part in message.parts if isinstance(part, str))
    yield f'<p class="question">{escape(words.strip())}</p>'


def _picture(picture: Picture) -> str:
    image, content = picture.image.copy(), BytesIO()
    image.thumbnail((PIXELS, PIXELS))
    image.save(content, "JPEG", quality=85)
    encoded = base64.b64encode(content.getvalue()).decode()
    size = f'width="{image.width}" height="{image.height}"'
    return f'<img alt="{escape(picture.name)}" {size} src="data:image/jpeg;base64,{encoded}">'


def _answer(row: Row) -> str:
    counts = (
        f"{block_efficiency([row]):.2f} tokens per round, {row.accepted} of "
        f"{count_of(row.emitted, 'token')} drafted"
    )
    differs = "differs from plain decoding" if row.divergence else ""
    return (
        f'<div class="answer"><div class="method">{escape(row.method)}'
        f'<span class="counts">{counts}</span>{differs}</div>'
        f'<div class="text">{"".join(_marked(row))}</div></div>'
    )


def _marked(row: Row) -> Iterator[str]:
    """The text of each round: the accepted tokens, marked, then the target's own."""
    start = 0
    for counts in row.rounds:
        middle, end = start + counts.accepted, start + counts.emitted
        if counts.accepted:
            yield f"<mark>{escape(''.join(row.pieces[start:middle]))}</mark>"
        yield escape("".join(row.pieces[middle:end]))
        start = end
