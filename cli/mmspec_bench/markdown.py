"""Writes the report as one Markdown file with a link to its figure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from mmspec_bench.table import Section, Table

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


def escaped(text: str) -> str:
    r"""Text that Markdown shows literally, on one line.

    >>> escaped("a|b <i>")
    'a\\|b &lt;i&gt;'
    """
    return _SPECIAL.sub(r"\\\1", escape(" ".join(text.split()), quote=False))


def document(title: str, sections: Sequence[Section], figures: Mapping[str, str]) -> str:
    """The whole report; figures: captions by file."""
    blocks = [f"# {escaped(title)}"]
    for section in sections:
        blocks += _section(section, figures)
    return "\n\n".join(blocks) + "\n"


def _section(section: Section, figures: Mapping[str, str]) -> Iterator[str]:
    yield f"## {escaped(section.title)}"
    yield from map(escaped, section.remarks)
    for file, caption in (figures if section.has_figure else {}).items():
        yield f"![{escaped(caption)}]({file})\n\n*{escaped(caption)}*"
    for table in section.tables:
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    yield f"### {escaped(table.title)}"
    if table.note:
        yield escaped(table.note)
    columns, *rows = ([*map(escaped, row)] for row in (table.columns, *table.rows))
    yield markdown_table(columns, rows, table.text_columns)


def markdown_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1
) -> str:
    """A table of Markdown cells; all but the first `text_columns` are aligned to the right."""
    rule = ["---"] * text_columns + ["--:"] * (len(columns) - text_columns)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))
