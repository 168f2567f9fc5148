"""Previews of images: their shape, their colours, and the terminals that draw pixels."""

import pytest
from PIL import Image

from mmspec_terminal.preview import preview
from mmspec_terminal.render import Screen


@pytest.fixture(autouse=True)
def no_program(monkeypatch):
    for name in ("TMUX", "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


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
def test_a_preview_is_small_and_keeps_the_shape(size, width, cells):
    shown = preview(Image.new("RGB", size), width)
    lines = shown.plain.split("\n")
    assert (len(lines[0]), len(lines)) == cells


def test_a_screen_without_colours_shows_no_preview(monkeypatch, capsys):
    for stream in ("sys.stdout", "sys.stderr"):
        monkeypatch.setattr(f"{stream}.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    Screen().picture(Image.new("RGB", (4, 4)))
    assert capsys.readouterr() == ("", "")
    monkeypatch.delenv("NO_COLOR")
    Screen().picture(Image.new("RGB", (4, 4), "red"))
    assert capsys.readouterr().err.count("▀") == 200
