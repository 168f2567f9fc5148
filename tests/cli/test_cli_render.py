"""What reaches the screen, and how."""

import re

import pytest

from mmspec.chat.answer import Answer, Piece
from mmspec.decoding.statistics import Round
from mmspec_cli.terminal.answer import short_footer
from mmspec_terminal.render import Screen

NASTY = "[bold]x[/bold] [/INST] list[int] \x1b[31mred\x1b[0m :smile:"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Make stdout and stderr pass for colour terminals."""

    def become(**environment: str) -> None:
        for stream in ("sys.stdout", "sys.stderr"):
            monkeypatch.setattr(f"{stream}.isatty", lambda: True)
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in {"TERM": "xterm-256color", **environment}.items():
            monkeypatch.setenv(name, value)

    return become


def test_on_a_terminal_control_characters_are_spelled_out_and_markup_is_text(terminal, capsys):
    terminal()
    screen = Screen()
    screen.piece(Piece("", NASTY))
    screen.end_line()
    assert capsys.readouterr().out == NASTY.replace("\x1b", "^[") + "\n"


@pytest.mark.parametrize("why", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted(terminal, capsys, why):
    terminal(**why)
    screen = Screen(accepted=True)
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
    answer.add(Round([1, 2, 3, 4], drafted, drafted, 3))
    answer.statistics.seconds["decode"] = 0.1
    line = "4 tokens, 40/s · first after 0.2 s · 0.4 s in all"
    assert short_footer(answer, 0.23, context) == line + end
    assert "first" not in short_footer(answer, None, context)


def test_an_answer_on_a_terminal_is_markdown_unless_that_is_switched_off(terminal, capsys):
    terminal()
    screen = Screen()
    for text in ("a **bo", "ld** word\n", "- item"):
        screen.piece(Piece("", text))
    screen.end_line()
    assert capsys.readouterr().out == "a \x1b[1mbold\x1b[0m word\n• item\n"
    screen.markdown = False
    screen.piece(Piece("", "a **bold** word"))
    screen.end_line()
    assert capsys.readouterr().out == "a **bold** word\n"
