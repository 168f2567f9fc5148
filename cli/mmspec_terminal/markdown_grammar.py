"""The Markdown of answers: CommonMark's blocks and emphasis, and pipe tables, and nothing else.

Links, HTML, entities and underlined headings stay the text that they are, and so do formulas,
addresses, patterns of file names, and the stars and underscores of programs in running text.
"""

import re
from collections.abc import Callable
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote, list_block, table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.emphasis import tokenize
from markdown_it.rules_inline.state_inline import Delimiter
from rich.cells import cell_len

Rule = Callable[[StateBlock, int, int, bool], bool]

OPENER = "opener"
"""Type of a token of text that becomes markup if what closes it follows."""

DEEPEST = 40
"""Levels of tokens within which quotes and lists nest; further markers are text."""

LONGEST = 400
"""Letters of a text between an opener and what closes it: as many are held back at most."""

_SEPARATORS = [*filter(str.isspace, map(chr, (*range(11, 32), *range(0x80, 0x3001))))]
_CODE = re.compile(rf"(`+)(?!`)(.{{1,{LONGEST}}}?)(?<!`)\1(?!`)", re.DOTALL)
_FORMULA = re.compile(
    rf"\\\(.{{1,{LONGEST}}}?\\\)|\\\[.{{1,{LONGEST}}}?\\\]|\$\$.{{1,{LONGEST}}}?\$\$|"
    rf"\$(?=[^\s\d$])[^$\n]{{1,{LONGEST}}}?(?<![\s\\])\$(?!\d)",
    re.DOTALL,
)
_FORMULA_OPENER = re.compile(r"\\[(\[]|\$\$|\$(?=[^\s\d$])")
_ESCAPE = re.compile(r"\\(?:\\|([*_`#+.>|~$-]))")
_ADDRESS = re.compile(r"://[^\s<>*`|]*[^\s<>*`|.,;:!?)\"'_]")
_NAME = re.compile(r"__[a-z0-9]+(?:_[a-z0-9]+)*__(?![^\W_])")
_SUBSTITUTES = {ord(letter): 0xFDD0 + place for place, letter in enumerate(_SEPARATORS)}
_SEPARATOR_OF = {substitute: letter for letter, substitute in _SUBSTITUTES.items()}
"""Whitespace by the characters, which no text has, that stand for it while blocks are parsed."""
_DISPLAY = {"\\[": "\\]", "$$": "$$"}
"""What closes a displayed formula, by what opens it."""


@cache
def grammar() -> MarkdownIt:
    """The parser, whose tokens `mmspec_terminal.markdown` shows."""
    parser = MarkdownIt("zero", {"maxNesting": 1000})
    parser.enable(["blockquote", "code", "emphasis", "fence", "heading", "hr", "list", "table"])
    parser.core.ruler.at("normalize", _hide_separators)
    parser.core.ruler.before("inline", "separators", _show_separators)
    block, inline = parser.block.ruler, parser.inline.ruler
    interrupts = ["paragraph", "reference", "blockquote", "list"]
    block.at("blockquote", _shallow(blockquote), {"alt": interrupts})
    block.at("list", _shallow(list_block), {"alt": interrupts[:-1]})
    block.at("table", _table, {"alt": interrupts[:2]})
    block.before("fence", "formula", _formula, {"alt": interrupts})
    inline.before("emphasis", "verbatim", _verbatim)
    inline.at("emphasis", _emphasis)
    parser.inline.ruler2.after("balance_pairs", "distant_pairs", _part_distant)
    inline.before("verbatim", "newline_kept", _newline)
    parser.inline.ruler2.before("fragments_join", "openers", _mark_openers)
    return parser


def _hide_separators(state: StateCore) -> None:
    """Leave blocks no whitespace but blanks, tabs and newlines: they drop other at their ends.

    There rows of tables end in a pipe alone.
    """
    text = re.sub(r"(?m)(?<=\|)[^\S\n]+$", "", state.src.replace("\r\n", "\n"))
    state.src = text.translate(_SUBSTITUTES)


def _show_separators(state: StateCore) -> None:
    for token in state.tokens:
        token.content = token.content.translate(_SEPARATOR_OF)


def _shallow(rule: Rule) -> Rule:
    def shallow_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        return state.level < DEEPEST and rule(state, start, end, silent)

    return shallow_rule


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A table of lines that begin with a pipe; none has more cells than the first."""
    last = start
    while last < end and _line(state, last).startswith("|"):
        last += 1
    if last < start + 2:
        return False
    rows = (re.sub(r"(?<!\\)\|\s*$", "", _line(state, number)) for number in range(start, last))
    columns = [max(len(re.findall(r"(?<!\\)\|", row)), 1) for row in rows]
    return max(columns) == columns[0] and table(state, start, last, silent)


def _formula(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    r"""A displayed formula: lines from \[ or $$ to what closes them, none of them blank."""
    first_line = _line(state, start)
    closing = _DISPLAY.get(first_line[:2])
    if closing is None or state.is_code_block(start):
        return False
    last, text = start, first_line[2:]
    while closing not in text:
        last += 1
        if last >= end or state.isEmpty(last) or state.sCount[last] < state.blkIndent:
            return False
        text = _line(state, last)
    if text.rstrip() != text[: text.index(closing) + 2]:
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content = state.getLines(start, last + 1, state.blkIndent, False)
        token.map = [start, last + 1]
        state.line = last + 1
    return True


def _verbatim(state: StateInline, silent: bool) -> bool:
    """Code, formulas, addresses, names such as __init__, and characters behind a backslash."""
    source, start = state.src, state.pos
    if code := _CODE.match(source, start):
        inner = code[2]
        is_padded = inner[0] == inner[-1] == " " and bool(inner.strip())
        return _take(state, code, "code_inline", inner[1:-1] if is_padded else inner, silent)
    if formula := _FORMULA.match(source, start):
        return _take(state, formula, "text", formula[0], silent)
    if opener := re.compile("`+").match(source, start) or _FORMULA_OPENER.match(source, start):
        kind = OPENER if state.posMax - opener.end() <= LONGEST else "text"
        return _take(state, opener, kind, opener[0], silent)
    if escape := _ESCAPE.match(source, start):
        return _take(state, escape, "text", escape[1] or escape[0], silent)
    within = start and (source[start - 1].isalnum() or source[start - 1] == "_")
    if literal := _ADDRESS.match(source, start) or (not within and _NAME.match(source, start)):
        return _take(state, literal, "text", literal[0], silent)
    return False


def _take(state: StateInline, match: re.Match[str], kind: str, content: str, silent: bool) -> bool:
    if not silent:
        state.push(kind, "", 0).content = content
    state.pos = match.end()
    return True


def _newline(state: StateInline, silent: bool) -> bool:
    """The end of a line; unlike CommonMark's, the next line keeps its indentation."""
    if state.src[state.pos] != "\n":
        return False
    if not silent:
        state.pending = state.pending.rstrip(" \t")
        state.push("softbreak", "", 0).content = "\n"
    state.pos += 1
    return True


def _emphasis(state: StateInline, silent: bool) -> bool:
    """CommonMark's, but for stars and underscores that programs, paths and products have."""
    source, start, before = state.src, state.pos, len(state.delimiters)
    if silent or not tokenize(state, silent):
        return False
    run, left, right = source[start : state.pos], source[start - 1 : start], source[state.pos :][:1]
    if start == 0 or left == "\n":
        left = " "
    opens = closes = True
    if run[0] == "_":
        opens = left.isspace() or left in "([{\"'*“‘«—–" or cell_len(left) > 1  # noqa: RUF001
        closes = right not in tuple("/\\=(@#&$%")
    elif _in_word(left) and _in_word(right):  # a*b*c, 2**3; but **word**s
        opens, word = False, source[:start].split()[-1]
        closes = re.fullmatch(rf"[^\w*]*{re.escape(run)}[^*]+", word) is not None
    elif left in "/\\":  # src/**/*.py
        opens, closes = False, right in ("", *" \n.,;:!?)")
    for delimiter in state.delimiters[before:]:
        delimiter.open, delimiter.close = delimiter.open and opens, delimiter.close and closes
        state.tokens[delimiter.token].meta = {"place": state.pos}
    return True


def _place(state: StateInline, delimiter: Delimiter) -> int:
    """The place in the source at which a delimiter's run ends."""
    return int(state.tokens[delimiter.token].meta["place"])


def _part_distant(state: StateInline) -> None:
    """Undo pairs over LONGEST letters apart: they would restyle text that is written already."""
    for opener in state.delimiters:
        closer = state.delimiters[opener.end]
        between = _place(state, closer) - closer.length - _place(state, opener)
        if opener.end >= 0 and between > LONGEST:
            opener.end = -1


def _in_word(letter: str) -> bool:
    return letter.isalnum() and cell_len(letter) < 2


def _mark_openers(state: StateInline) -> None:
    for delimiter in state.delimiters:
        token = state.tokens[delimiter.token]
        may_close = delimiter.open and state.posMax - _place(state, delimiter) <= LONGEST
        if may_close and token.type == "text" and token.content:
            token.type = OPENER
