"""What reaches the screen, and how: text, lines, tables and previews of images."""

import re
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from rich.cells import cell_len

from mmspec.chat.answer import Answer, Piece
from mmspec.decoding.statistics import Round
from mmspec_cli.terminal.answer import short_footer
from mmspec_terminal.preview import preview
from mmspec_terminal.render import Screen
from mmspec_terminal.wrapping import Wrap

NASTY = "[bold]x[/bold] [/INST] list[int] \x1b[31mred\x1b[0m :smile:"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch):
    """Make stdout and stderr pass for colour terminals without a program of their own."""

    def become(**environment: str) -> None:
        for stream in ("sys.stdout", "sys.stderr"):
            monkeypatch.setattr(f"{stream}.isatty", lambda: True)
        for name in ("NO_COLOR", "TMUX", "TERM_PROGRAM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"TERM": "xterm-256color", **environment}.items():
            monkeypatch.setenv(name, value)

    return become


def say(capsys, *texts: str, markdown: bool = True) -> str:
    """What a screen shows of an answer that comes in these parts."""
    screen = Screen()
    screen.markdown = markdown
    for text in texts:
        screen.piece(Piece("", text))
    screen.end_line()
    return capsys.readouterr().out


def test_an_answer_on_a_terminal_is_markdown_without_control_characters(terminal, capsys):
    terminal()
    assert say(capsys, NASTY) == NASTY.replace("\x1b", "^[") + "\n"
    shown = "a \x1b[1mbold\x1b[0m word\n• item\n"
    assert say(capsys, "a **bo", "ld** word\n", "- item") == shown
    assert say(capsys, "a **bold** word", markdown=False) == "a **bold** word\n"


@pytest.mark.parametrize("why", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted(terminal, capsys, why):
    terminal(**why)
    screen = Screen(marks_accepted=True)
    screen.piece(Piece("drafted", " own"))
    screen.note("a note")
    screen.progress("reading")
    screen.table(["a"], [["b"]])
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert out.startswith("‹drafted› own\n")  # noqa: RUF001
    assert "reading" not in err


WIDE = ["method", "acceptance rate", "first token p50", "peak memory, MiB", "same tokens", "why"]
ROW = ["M", "49.2 %", "0.105", "130", "100.00 %", "qwen2.5-vl-3b and a sentence"]


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("columns", [40, 61, 200])
def test_a_table_breaks_no_words_and_loses_no_column(terminal, capsys, plain, columns):
    terminal(COLUMNS=str(columns))
    Screen(plain=plain).table(WIDE, [ROW, ["MT", *ROW[1:]]])
    out = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert max(map(len, out.splitlines())) <= columns
    assert {word for cell in (*WIDE, *ROW, "MT") for word in cell.split()} <= set(out.split())
    assert out.count("acceptance") == (1 if columns > 60 else 2)


def test_a_table_has_room_for_letters_of_two_columns(terminal, capsys):
    terminal(COLUMNS="60")
    Screen(plain=True).table(["", "asked"], [["1", "何が写っていますか"], ["2", "what?"]])
    assert "何が写っていますか" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("drafted", "plain_seconds", "context", "end"),
    [
        (5, 0.05, 100, " · 2.0 × faster"),  # noqa: RUF001
        (5, 0.026, 100, " · no faster"),
        (5, None, 100, ""),
        (0, 0.05, 100, ""),
        (0, 0.05, 50, " · 68% of the context used"),
    ],
)
def test_the_short_line_says_speed_seconds_and_gain(drafted, plain_seconds, context, end):
    answer = Answer(plain_seconds=plain_seconds)
    answer.statistics.prompt_tokens = 30
    answer.statistics.seconds["total"] = 0.4
    answer.add(Round([1, 2, 3, 4], drafted, drafted, 3, cost_seconds=0.1, by_lookup=True))
    answer.statistics.seconds["decode"] = 0.1
    line = "4 tokens, 40/s · first after 0.2 s · 0.4 s in all"
    from_lookup = ", repeating earlier text" if "× faster" in end else ""  # noqa: RUF001
    assert short_footer(answer, 0.23, context) == line + end + from_lookup
    assert "first" not in short_footer(answer, None, context)
    answer.add(Round([1], 5, 5, 0))
    assert "repeating" not in short_footer(answer, 0.23, context)


def test_an_answer_whose_accepted_tokens_are_marked_keeps_its_markdown_signs(terminal, capsys):
    terminal()
    screen = Screen(marks_accepted=True)
    for piece in (Piece("a *", "*b"), Piece("", "o"), Piece("ld** ", "word")):
        screen.piece(piece)
    screen.end_line()
    out = capsys.readouterr().out
    assert re.sub(r"\x1b\[[\d;]*m", "", out) == "a **bold** word\n"
    assert re.findall(r"\x1b\[32m([^\x1b]*)", out) == ["a ", "*", "ld** "]


def shown(pieces, width: int) -> list[str]:
    wrap = Wrap()
    runs = [run for piece in pieces for run in wrap.lay(piece, None, width)]
    text = "".join(text for text, _ in [*runs, *wrap.end(width)])
    return [line.rstrip(" ") for line in text.split("\n")]


WORDS = st.lists(st.text("abcxyz.é,'", min_size=1, max_size=9), min_size=1, max_size=30)


@st.composite
def in_pieces(draw, texts):
    """A text, and the pieces in which it comes."""
    text = draw(texts)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)))))
    return text, [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@settings(max_examples=60)
@given(in_pieces(WORDS.map(" ".join)), st.integers(11, 30))
def test_lines_are_those_of_a_printer_however_the_text_comes(parts, width):
    text, pieces = parts
    plain = textwrap.TextWrapper(width - 1, break_on_hyphens=False, drop_whitespace=True)
    assert shown(pieces, width) == plain.wrap(text)


@settings(max_examples=60)
@given(in_pieces(st.text("ab \n\t日本語🙂e\u0301-", max_size=80)), st.integers(4, 20))
def test_nothing_is_lost_and_no_line_is_too_long(parts, width):
    lines = shown(parts[1], width)
    assert "".join("".join(lines).split()) == "".join(parts[0].split())
    assert max(map(cell_len, lines)) < width


def test_a_word_is_held_back_until_it_ends_or_the_text_does():
    wrap = Wrap()
    assert wrap.lay("one tw", None, 40) == [("one ", None)]
    assert wrap.lay("o th", None, 40) == [("two ", None)]
    assert wrap.end(40) == [("th", None)]
    assert wrap.end(40) == []
    wrap.lay("• one", None, 9)
    wrap.end(9)  # an answer cut within a list does not indent the next
    assert wrap.lay("two three ", None, 9) == [("two \nthree ", None)]


def test_the_rest_of_a_line_in_a_list_or_a_quote_stands_below_its_text():
    assert shown(["• one two three\n", "  12. four five six\nx"], 13) == [
        *("• one two", "  three"),
        *("  12. four", "      five", "      six", "x"),
    ]
    assert shown(["│ • aa bb", " cc dd"], 10) == ["│ • aa bb", "│   cc dd"]
    assert shown(["• a verylongword"], 9) == ["• a very", "  longwo", "  rd"]


@pytest.mark.parametrize(
    ("size", "width", "cells"),
    [
        ((640, 480), 80, (24, 9)),
        ((1000, 2), 80, (24, 1)),
        ((2, 1000), 80, (1, 10)),
        ((640, 480), 8, (8, 3)),
        ((1, 1), 80, (20, 10)),
    ],
)
def test_a_preview_is_small_and_keeps_the_shape(terminal, size, width, cells):
    terminal()
    lines = preview(Image.new("RGB", size), width).plain.split("\n")
    assert (len(lines[0]), len(lines)) == cells


def test_a_screen_without_colours_shows_no_preview(terminal, capsys):
    for environment, cells in (({"NO_COLOR": "1"}, 0), ({}, 200)):
        terminal(**environment)
        Screen().picture(Image.new("RGB", (4, 4), "red"))
        assert capsys.readouterr().err.count("▀") == cells
