"""The report as one Markdown file, with its figures linked."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mmspec.bench.report.plots.style import Plot
from mmspec.bench.report.table import Section, Table

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> escaped("a|b <i>")
    'a\\|b &lt;i&gt;'
    """
    one = " ".join(text.split())
    entities = "".join(_ENTITIES.get(character, character) for character in one)
    return _SPECIAL.sub(r"\\\1", entities)


def document(title: str, sections: Sequence[Section], drawn: Mapping[str, Plot]) -> str:
    """The whole report.

    drawn: by name, the figures that exist, as `figures/NAME.png` beside the file.
    """
    blocks = [f"# {escaped(title)}"]
    for section in sections:
        blocks += _section(section, drawn)
    return "\n\n".join(blocks) + "\n"


def _section(section: Section, drawn: Mapping[str, Plot]) -> Iterator[str]:
    yield f"## {escaped(section.title)}"
    yield from map(escaped, section.remarks)
    for name in section.figures:
        if name in drawn:
            caption = escaped(drawn[name].caption)
            yield f"![{caption}](figures/{name}.png)\n\n*{caption}*"
    for table in section.tables:
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    yield f"### {escaped(table.title)}"
    if table.note:
        yield escaped(table.note)
    if not table.rows:
        yield "None."
        return
    rule = ["---"] * table.words + ["--:"] * (len(table.columns) - table.words)
    yield "\n".join(map(_row, [map(escaped, table.columns), rule, *_cells(table)]))


def _cells(table: Table) -> Iterator[Iterator[str]]:
    return (map(escaped, row) for row in table.rows)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
