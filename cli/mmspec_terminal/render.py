"""Writes answers and results to stdout, and remarks to stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from PIL.Image import Image
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import ControlType
from rich.table import Table
from rich.text import Text

from mmspec.chat.answer import Piece
from mmspec.ground.escape import one_line, visible, visible_json
from mmspec.ground.output_files import replace_text
from mmspec.ground.progress import Notice
from mmspec_terminal.markdown import GAP, Markdown
from mmspec_terminal.preview import preview
from mmspec_terminal.wording import with_flags
from mmspec_terminal.wrapping import Run, Wrap

DRAFT_STYLE, NOTE_STYLE, ERROR_STYLE = "green", "dim", "bold red"
OPENING = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
CLOSING = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
WHOLE_WORD = 15
"""Columns of the longest word that a table does not break."""
_ERASE_LINE = (ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


def _width(console: Console) -> int:
    """The terminal's number of columns now; Console prefers COLUMNS, stale after a resize."""
    try:
        return os.get_terminal_size(console.file.fileno()).columns or console.width
    except (OSError, ValueError):  # the console does not write to a terminal
        return console.width


@dataclass(kw_only=True, eq=False)
class Screen:
    """Writes text without markup; on a terminal it spells out control characters.

    plain: no colour, boxes or temporary lines; also set if stdout is not a terminal, NO_COLOR is
    set, or the terminal is dumb.  marks_accepted: mark accepted draft tokens, by colour or, if
    plain, by angle quotes.  as_json: results are JSON.  report_file: gets the JSON of results too.
    """

    plain: bool = False
    marks_accepted: bool = False
    as_json: bool = False
    report_file: Path | None = None

    def __post_init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        dumb = os.environ.get("TERM") == "dumb"
        self.plain |= dumb or not self.terminal or bool(os.environ.get("NO_COLOR"))
        self._out = self._console(sys.stdout)
        self._err = self._console(sys.stderr)
        self._progress = False
        self._in_line = False
        self._wrap = Wrap()
        self.markdown = self.terminal and not self.plain
        """True if answers are shown as Markdown, unless accepted tokens are marked."""
        self._markdown = self._new_markdown()

    def _new_markdown(self) -> Markdown:
        return Markdown(lambda: _width(self._out))

    def _console(self, file: Any) -> Console:
        return Console(file=file, color_system=None if self.plain else "auto", highlight=False)

    def piece(self, piece: Piece) -> None:
        """Write one round's text without ending the line."""
        self.clear_progress()
        if self.marks_accepted and piece.accepted:
            text = f"{OPENING}{piece.accepted}{CLOSING}" if self.plain else piece.accepted
            self._stream(text, DRAFT_STYLE)
            self._stream(piece.own)
        elif self.markdown and not self.marks_accepted:
            self._stream_runs(self._markdown.push(piece.text))
        else:
            self._stream(piece.text)

    def _stream_runs(self, runs: Iterator[Run]) -> None:
        for text, style in runs:
            self._stream(text, style)

    def _stream(self, text: str, style: str | None = None) -> None:
        """Write text without ending the line; on a terminal lines break between words."""
        if not self.terminal:
            self._write(text, style)
            return
        for run in self._wrap.lay(visible(text), style, _width(self._out)):
            self._write(*run)

    def _write(self, text: str, style: str | None = None) -> None:
        """Write text, which on a terminal is `visible` already."""
        if self.terminal:
            self._out.out(text, end="", style=style)
        else:
            self._out.file.write(text)  # unchanged: rich would leave control characters out
        self._out.file.flush()
        self._in_line = not text.endswith("\n") if text else self._in_line

    def end_line(self) -> None:
        """Write the rest of a streamed text, and end the line of stdout if it has text."""
        self.clear_progress()
        markdown, self._markdown = self._markdown, self._new_markdown()
        self._stream_runs(markdown.end())
        for run in self._wrap.end(_width(self._out)):
            self._write(*run)
        if self._in_line:
            self._write("\n")

    def say(self, *lines: object) -> None:
        """Write lines to stdout; on a terminal they wrap between words."""
        self.clear_progress()
        for text in lines:
            self._stream(f"{text}\n")

    def picture(self, image: Image) -> None:
        """Show a small preview of an image on a terminal; nothing if plain."""
        if not self.plain and self._err.is_terminal:
            self.end_line()
            self._err.print(preview(image, _width(self._err)))

    def json(self, value: Any) -> None:
        """Write one JSON document on one line."""
        self._out.file.write(visible_json(json.dumps(value, ensure_ascii=False)) + "\n")
        self._out.file.flush()

    def tell(self, value: Any, lines: Iterable[str]) -> None:
        """Write a result as lines, or as the JSON document `value`."""
        self.report(value, lambda: self.say(*lines))

    def show(self, value: Any, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a result as a table, or as the JSON document `value`."""
        self.report(value, lambda: self.table(columns, rows))

    def report(self, value: Any, show: Callable[[], object]) -> None:
        """Write a result as `show` does, or as the JSON document `value`, then the report file."""
        if self.as_json:
            self.json(value)
        else:
            show()
        if self.report_file:
            replace_text(self.report_file, json.dumps(value, indent=2) + "\n")

    def note(self, *remarks: str) -> None:
        """Write remarks to stderr, a line each; on a terminal they wrap between words."""
        for text in remarks:
            self._remark(text, NOTE_STYLE)

    def error(self, text: str) -> None:
        """Write an error on one line of stderr; on a terminal it wraps between words."""
        self._remark(text, ERROR_STYLE)

    def _remark(self, text: str, style: str) -> None:
        self.end_line()
        wraps = self.terminal and self._err.is_terminal
        line, width = Text(one_line(with_flags(text))), _width(self._err)
        with suppress(OSError):  # a log on a full disk ends neither an answer nor a server
            self._err.print(line, style=style, width=width, soft_wrap=not wraps)

    def progress(self, text: str) -> None:
        """Show a line on stderr, until the next output; nothing if plain. A Notice stays."""
        if isinstance(text, Notice):
            self.note(text)
            return
        if self.plain or not self._err.is_terminal:
            return
        self.clear_progress()
        self._err.out(one_line(text)[: _width(self._err) - 1], style=NOTE_STYLE, end="")
        self._progress = True

    def clear_progress(self) -> None:
        """Erase the progress line."""
        if self._progress:
            self._err.control(Control(*_ERASE_LINE))
            self._progress = False

    @contextmanager
    def bar(self, total: int, *, start: int = 0) -> Iterator[Callable[[str], None]]:
        """Show a progress bar, nothing if plain; yields what advances it by one with a remark."""
        self.clear_progress()
        columns = (
            *(BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False)),
            *(TimeRemainingColumn(), TextColumn("left")),
        )
        disable = self.plain or not self._err.is_terminal
        with Progress(*columns, console=self._err, transient=True, disable=disable) as progress:
            task = progress.add_task("", total=total, completed=start)
            yield lambda text: progress.update(task, advance=1, description=one_line(text))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table of text to stdout; one for each row where it would break words."""
        self.clear_progress()
        titles, *cells = ([one_line(cell) for cell in row] for row in (columns, *rows))
        if not self.terminal:
            self._plain_table([titles, *cells] if any(titles) else cells)
            return
        widths = _column_widths(list(zip(titles, *cells, strict=True)), _width(self._out))
        if len(titles) > 2 and not widths:
            for row in cells:
                self.table(("", ""), list(zip(titles, row, strict=True)))
            return
        box, right = (None, GAP) if self.plain else (SIMPLE_HEAD, GAP - 1)
        table = Table(box=box, pad_edge=False, padding=(0, right, 0, 0), show_header=any(titles))
        for title, width in zip_longest(titles, widths):
            table.add_column(Text(title), overflow="fold", width=width)
        for row in cells:
            table.add_row(*map(Text, row))
        self._out.print(table)

    def _plain_table(self, rows: Sequence[Sequence[str]]) -> None:
        widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
        for row in rows:
            texts = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
            self._write("  ".join(texts).rstrip() + "\n")


def _column_widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths that break no word, the first columns whole; empty if `room` is too narrow."""
    widths = [
        max((min(cell_len(word), WHOLE_WORD) for word in " ".join(cells).split()), default=0)
        for cells in columns
    ]
    spare = room - GAP * len(widths) - sum(widths)
    if spare < 0:
        return []
    for place, texts in enumerate(columns):
        growth = min(spare, max(map(cell_len, texts)) - widths[place])
        widths[place] += growth
        spare -= growth
    return widths


def in_words(value: Any) -> str:
    """A value for a table: a mapping or a list with commas, and - for nothing."""
    if isinstance(value, dict):
        value = [f"{key}: {item}" for key, item in value.items()]
    return (", ".join(map(str, value)) if isinstance(value, list) else str(value)) or "-"
