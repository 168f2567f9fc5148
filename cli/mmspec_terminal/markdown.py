"""Styles Markdown as it arrives; holds back only what later text decides."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len

from mmspec_terminal.markdown_grammar import OPENER, grammar
from mmspec_terminal.wrapping import BAR, Run

BOLD, ITALIC, CODE, QUOTE = "bold", "italic", "cyan", "dim"

GAP = 2
"""Columns between two of a table."""

_STYLES = {"strong": BOLD, "em": ITALIC, "code_inline": CODE}
_MARKERS = r"(?:[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t])))*[ \t]*"
_AMBIGUOUS = re.compile(
    _MARKERS + r"(?:\#{1,6}|([-*_])(?:[ \t]*\1)*|[+>]|[`~\\$|].*|\d{1,9}[.)]?)?[ \t]*"
)
"""Matches the beginning of a line of which later text says what it is."""
_OPEN_END = re.compile(
    rf"""(?:^|(?<=\n))(?:
        (?:{_MARKERS}\|[^\n]*(?:\n|\Z))+  # lines of a table
        |{_MARKERS}\\\[(?:(?!\\\]|\n[ \t]*\n).)*(?:\\\][^\S\n]*)?  # a formula, or its last line
        |{_MARKERS}\$\$(?:(?!\$\$|\n[ \t]*\n).)*(?:\$\$[^\S\n]*)?
        |(?:{_MARKERS}(?:[-*+]|\d{{1,9}}[.)])\s*\n)+\s*  # list items that begin on the next line
    )\Z""",
    re.DOTALL | re.VERBOSE,
)
"""Matches lines at the end of a source of which later text says what they are."""
_LAST_MARKERS = re.compile(r"[*_`\\$#:\s]*\Z")


class Markdown:
    """The Markdown of one answer: what of it is not written yet, and what may still change."""

    def __init__(self, columns: Callable[[], int]) -> None:
        """columns: returns the width beyond which a table is written row by row."""
        self._columns = columns
        self._source = ""  # from the beginning of the last block
        self._input_length = 0  # letters of the source that are parsed
        self._output_length = 0  # letters of what is shown for the source that are written
        self._in_fence = False

    def push(self, text: str) -> Iterator[Run]:
        """Yield what can be written after `text` arrived."""
        self._source += text
        stop = self._stable_length()
        if stop > self._input_length:
            yield from self._show(stop, is_end=False)

    def end(self) -> Iterator[Run]:
        """Yield the rest of the answer."""
        yield from self._show(len(self._source), is_end=True)

    def _stable_length(self) -> int:
        """The number of letters of the source that later ones leave in their blocks."""
        source = self._source
        stop = start = source.rfind("\n") + 1
        if not self._in_fence:
            text_end = _LAST_MARKERS.search(source, start).start()  # type: ignore[union-attr]
            is_ambiguous = _AMBIGUOUS.fullmatch(source, start, text_end)
            stop = start if is_ambiguous or _AMBIGUOUS.fullmatch(source, start) else text_end
        while match := _OPEN_END.search(source[:stop]):
            stop = match.start()
        return stop

    def _show(self, stop: int, *, is_end: bool) -> Iterator[Run]:
        """Write what is new in what is shown for the source up to `stop`."""
        rendering = _Rendering(self._source[:stop], is_end=is_end, columns=self._columns)
        yield from rendering.after(self._output_length)
        self._output_length = max(self._output_length, rendering.length)
        self._input_length, self._in_fence = stop, rendering.in_fence
        if rendering.last_length <= self._output_length:
            earlier_lines = self._source.split("\n")[: rendering.last_line]
            start = sum(len(line) + 1 for line in earlier_lines)
            self._source = self._source[start:]
            self._input_length -= start
            self._output_length -= rendering.last_length


class _Rendering:
    """What is shown for a source: a line for each of its own, but for fences and dividers."""

    def __init__(self, source: str, *, is_end: bool, columns: Callable[[], int]) -> None:
        self.runs: list[Run] = []
        self.length = 0
        self.in_fence = False
        """True if the source ends within a fence."""
        self.last_line = self.last_length = 0
        """The line at which the last block starts, and the length of what is before it."""
        self._is_end = is_end
        self._columns = columns
        self._whole_lines = source.count("\n")
        self._lines = self._whole_lines + (not source.endswith("\n"))
        self._line = 0
        self._containers: list[list[str]] = []
        """What the next line and later ones of each quote and list item begin with."""
        for block in SyntaxTreeNode(grammar().parse(source)).children:
            self._show(block)
        if is_end:
            self._to_line(self._whole_lines)

    def after(self, start: int) -> Iterator[Run]:
        """The runs from the letter `start` on."""
        for text, style in self.runs:
            if start < len(text):
                yield text[start:], style
            start = max(start - len(text), 0)

    def _show(self, node: SyntaxTreeNode) -> None:
        if node.map and (node.level == 0 or node.type == "list_item"):
            self._to_line(node.map[0])
            if node.level < 2:
                self.last_line, self.last_length = node.map[0], self.length
        match node.type:
            case "paragraph" | "heading":
                self._text(node.children[0], BOLD if node.type == "heading" else None)
            case "fence" | "code_block" | "formula":
                self._code(node)
            case "hr":
                self._begin_line(_lines(node)[0])
                self._put("─" * 20, QUOTE)
                self._end_line()
            case "table":
                self._table(node)
            case "blockquote" | "list_item":
                mark = f"{node.info}{node.markup} " if node.info else "• "
                is_item = node.type == "list_item"
                self._containers.append([mark, " " * len(mark)] if is_item else [BAR, BAR])
                for child in node.children:
                    self._show(child)
                # Nothing was shown behind it: the item is empty, or a fence without lines.
                if self._at_marker and (self._is_end or not self.in_fence):
                    stop, self._line = self._line, _lines(node)[0]
                    self._begin_line(self._line)
                    self._end_line()
                    self._line = max(self._line, stop)
                self._containers.pop()
            case _:
                for child in node.children:
                    self._show(child)

    @property
    def _at_marker(self) -> bool:
        return any(mark != indent for mark, indent in self._containers)

    def _to_line(self, line: int) -> None:
        """Show the blank lines before a line; behind a list item's marker there are none."""
        while self._line < line and not self._at_marker:
            bars = "".join(indent for _, indent in self._containers).rstrip()
            self._put(bars, QUOTE)
            self._end_line()
        self._line = line

    def _begin_line(self, line: int) -> None:
        self._to_line(line)
        for container in self._containers:
            self._put(container[0], QUOTE if container[0] == BAR else None)
            container[0] = container[1]

    def _end_line(self) -> None:
        if self._line < self._whole_lines:
            self._put("\n", None)
        self._line += 1

    def _put(self, text: str, style: str | None) -> None:
        if text:
            quote = QUOTE if [BAR, BAR] in self._containers and style != QUOTE else ""
            self.runs.append((text, f"{quote} {style or ''}".strip() or None))
            self.length += len(text)

    def _text(self, inline: SyntaxTreeNode, style: str | None) -> None:
        """A paragraph or heading; what may go on is shown up to what may become markup."""
        start, stop = _lines(inline)
        has_end = stop <= self._whole_lines
        goes_on = not self._is_end and stop == self._lines and not (style and has_end)
        self._begin_line(start)
        stable = [*takewhile(_is_stable, inline.children)] if goes_on else inline.children
        for text, inner in _runs(stable, style):
            if text == "\n":
                self._end_line()
                self._begin_line(self._line)
            else:
                self._put(text, inner)
        if len(stable) == len(inline.children):
            self._line = stop - 1
            self._end_line()

    def _code(self, token: SyntaxTreeNode) -> None:
        """The lines of code or of a formula; while more may follow, the whole ones."""
        start, stop = _lines(token)
        indent = "    " if token.type == "code_block" else ""
        lines = token.content.removesuffix("\n").split("\n") if token.content else []
        self._to_line(start)
        self._line += token.type == "fence"
        is_open = stop - start == 1 + len(lines) and stop == self._lines
        self.in_fence = token.type == "fence" and is_open
        for line in lines:
            if not self._is_end and self._line >= self._whole_lines:
                return
            self._begin_line(self._line)
            self._put(indent * bool(line.strip()) + line.rstrip(), CODE)
            self._end_line()
        self._line = max(self._line, stop)

    def _table(self, table: SyntaxTreeNode) -> None:
        rows = [[_Cell(cell) for cell in row.children] for row in table.walk() if row.type == "tr"]
        start, stop = _lines(table)
        for number, line in enumerate(_table_lines(rows, self._columns())):
            if number:
                self._put("\n", None)
            self._begin_line(start)
            for run in line:
                self._put(*run)
        self._line = stop - 1
        self._end_line()


def _lines(node: SyntaxTreeNode) -> tuple[int, int]:
    assert node.map
    return node.map


def _is_stable(node: SyntaxTreeNode) -> bool:
    """True for text that stays, whatever follows an opener: code in emphasis undoes that."""
    return all(part.type != OPENER for part in node.walk())


class _Cell:
    """A cell of a table: its text, the columns of the terminal that it takes, and its style."""

    def __init__(self, cell: SyntaxTreeNode) -> None:
        self.runs = [*_runs(cell.children[0].children, BOLD if cell.tag == "th" else None)]
        self.columns = sum(cell_len(text) for text, _ in self.runs)
        self._style = str(cell.attrs.get("style"))

    def pad(self, width: int) -> list[Run]:
        """The text, padded to `width` columns."""
        spare = width - self.columns
        left = {"text-align:right": spare, "text-align:center": spare // 2}.get(self._style, 0)
        return [(" " * left, None), *self.runs, (" " * (spare - left), None)]


def _table_lines(rows: list[list[_Cell]], room: int) -> list[list[Run]]:
    """A table's lines; if it is wider than `room`, each cell behind its column's title."""
    widths = [max(cell.columns for cell in column) for column in zip(*rows, strict=True)]
    if sum(widths) + GAP * len(widths) <= room:
        return [_row_line(row, widths) for row in rows]
    lines: list[list[Run]] = []
    for number, row in enumerate(rows[1:]):
        lines += [[]] if number else []
        pairs = zip(rows[0], row, strict=True)
        lines += [[*title.runs, (": ", BOLD), *cell.runs] for title, cell in pairs]
    return lines


def _row_line(row: list[_Cell], widths: list[int]) -> list[Run]:
    line: list[Run] = []
    for cell, width in zip(row, widths, strict=True):
        line += [(" " * GAP, None)] if line else []
        line += cell.pad(width)
    return line


def _runs(nodes: Sequence[SyntaxTreeNode], style: str | None) -> Iterator[Run]:
    """The parts of a text; a newline is a part of its own."""
    for node in nodes:
        styles = [*(style or "").split(), *filter(None, [_STYLES.get(node.type)])]
        inner = " ".join(dict.fromkeys(styles)) or None
        if node.is_nested:
            yield from _runs(node.children, inner)
            continue
        for number, text in enumerate(node.content.split("\n")):
            if number:
                yield "\n", None
            yield text, inner
