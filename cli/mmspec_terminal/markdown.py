"""Styles Markdown as it arrives; holds back only what later text of its line decides.

Headings, lists, quotes, rules, tables, code, bold and italic are styled; other text stays as it is.
"""

import re
from collections.abc import Iterator

from mmspec_terminal.wrapping import Run

BOLD, ITALIC, CODE, QUOTE = "bold", "italic", "cyan", "dim"

_UNDECIDED = re.compile(r"[ \t]*(?:#{1,6}|([-*_])(?:[ \t]*\1)*|[+>]|`{1,2})?[ \t]*")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*(?:\n|$)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+")
_BULLET = re.compile(r"([ \t]*)[-*+][ \t]+")
_QUOTE = re.compile(r" {0,3}>[ \t]?")
_DIVIDER = re.compile(r"\|(?:[ \t]*:?-+:?[ \t]*\|)+")
_SPANS = (
    (BOLD, re.compile(r"(\*\*)(?=[^\s*])(.+?)(?<=\S)\1")),
    (BOLD, re.compile(r"(__)(?=[^\s_])(.+?)(?<=\S)\1")),
    (ITALIC, re.compile(r"(\*)(?=[^\s*])(.+?)(?<=[^\s*])\1")),
    (ITALIC, re.compile(r"(_)(?=[^\s_])(.+?)(?<=[^\s_])\1(?!\w)")),
    (CODE, re.compile(r"(`)([^`]+)\1")),
)
_OPENS_NOTHING = re.compile(r"\*{3}|_{3}|(?:\*+|_+|\\)\s")
_PLAIN = re.compile(r"[^*_`\\\n]+")


class Markdown:
    """The state of one answer's Markdown: the text held back, and the block that it is in."""

    def __init__(self) -> None:
        self._held = ""
        self._before = ""  # the last letter written: _ within a word is no markup
        self._style: str | None = None
        self._starts = True
        self._in_code = False
        self._table: list[str] = []

    def push(self, text: str) -> Iterator[Run]:
        """Yield what can be written after `text` arrived."""
        self._held += text
        while self._held and (runs := self._next(self._held, ended=False)) is not None:
            yield from runs

    def end(self) -> Iterator[Run]:
        """Yield the rest of the answer."""
        while self._held:
            yield from self._next(self._held, ended=True) or ()
        yield from self._taken_table()

    def _next(self, held: str, *, ended: bool) -> list[Run] | None:
        """Take the next part of what is held; None if it needs more text."""
        if not self._starts:
            return self._inline(held, ended=ended)
        if self._in_code or held.startswith(("```", "|")):
            return self._line(held, ended=ended)
        if not ended and _UNDECIDED.fullmatch(held):
            return None
        return self._taken_table() or self._begin(held)

    def _line(self, held: str, *, ended: bool) -> list[Run] | None:
        """Take a whole line of code or of a table."""
        if "\n" not in held and not ended:
            return None
        line, newline, self._held = held.partition("\n")
        if line.startswith("```"):
            self._in_code = not self._in_code
            return self._taken_table()
        if self._in_code:
            return [(line + newline, CODE)]
        self._table.append(line)
        return []

    def _begin(self, held: str) -> list[Run]:
        """Take the marker at the beginning of a line."""
        if rule := _RULE.match(held):
            self._held = held[rule.end() :]
            return [("─" * 20 + "\n", QUOTE)]
        self._starts = False
        for pattern, style, shown in (
            (_HEADING, BOLD, ""),
            (_BULLET, None, r"\1• "),
            (_QUOTE, QUOTE, "│ "),
        ):
            if marker := pattern.match(held):
                self._held, self._style = held[marker.end() :], style
                return [(marker.expand(shown), style)]
        return []

    def _inline(self, held: str, *, ended: bool) -> list[Run] | None:
        """Take the next run of a line."""
        if plain := _PLAIN.match(held):
            return [self._taken(plain[0], plain[0], None)]
        if held[0] == "\n":
            run = self._taken("\n", "\n", None)
            self._starts, self._style = True, None
            return [run]
        if held[0] == "\\" and re.match(r"\\[!-/:-@\[-`{-~]", held):
            return [self._taken(held[:2], held[1], None)]
        is_open = "\n" not in held and not ended
        for style, pattern in _SPANS:
            span = pattern.match(held.partition("\n")[0])
            if span and not self._within_word(span):
                if is_open and span.end() == len(held):  # what follows may change its end
                    return None
                return [self._taken(span[0], span[2], style)]
        if is_open and not _OPENS_NOTHING.match(held):
            return None
        return [self._taken(held[0], held[0], None)]

    def _within_word(self, span: re.Match[str]) -> bool:
        return span[1].startswith("_") and self._before.isalnum()

    def _taken(self, source: str, shown: str, style: str | None) -> Run:
        self._held = self._held[len(source) :]
        self._before = source[-1]
        return shown, " ".join(filter(None, (self._style, style))) or None

    def _taken_table(self) -> list[Run]:
        """The table that was held back, its columns aligned."""
        rows = [
            [cell.strip() for cell in line.strip().strip("|").split("|")] for line in self._table
        ]
        divided = len(rows) > 1 and _DIVIDER.fullmatch(self._table[1].strip()) is not None
        lines, self._table = self._table, []
        if not divided:
            return [("".join(f"{line}\n" for line in lines), None)] if lines else []
        del rows[1]
        columns = max(map(len, rows))
        widths = [
            max(len(row[place]) for row in rows if place < len(row)) for place in range(columns)
        ]
        padded = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
            for row in rows
        ]
        return [(f"{padded[0]}\n", BOLD), *((f"{row}\n", None) for row in padded[1:])]
