"""Previews of images: their shape, their colours, and the terminals that draw pixels."""

import pytest
from PIL import Image
from rich.text import Text
from textual_image.renderable.sixel import Image as SixelImage
from textual_image.renderable.tgp import Image as KittyImage

from mmspec_terminal.preview import half_blocks, preview
from mmspec_terminal.render import Screen


@pytest.fixture(autouse=True)
def no_program(monkeypatch):
    for name in ("TMUX", "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_half_blocks_have_the_colours_of_their_two_pixels():
    image = Image.new("RGB", (1, 2), "white")
    image.putpixel((0, 0), (255, 0, 0))
    text = half_blocks(image, 1, 1)
    assert (text.plain, [span.style for span in text.spans]) == ("▀", ["#ff0000 on #ffffff"])


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


@pytest.mark.parametrize(
    ("variables", "kind"),
    [
        ({"TERM": "xterm-kitty"}, KittyImage),
        ({"TERM_PROGRAM": "iTerm.app"}, SixelImage),
        ({"TERM": "foot-extra"}, SixelImage),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, Text),
        ({"TERM_PROGRAM": "Apple_Terminal"}, Text),
    ],
)
def test_terminals_with_graphics_get_pixels(monkeypatch, variables, kind):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert isinstance(preview(Image.new("RGB", (40, 30)), 80), kind)


def test_a_screen_without_colours_shows_no_preview(monkeypatch, capsys):
    for stream in ("sys.stdout", "sys.stderr"):
        monkeypatch.setattr(f"{stream}.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    Screen().picture(Image.new("RGB", (4, 4)))
    assert capsys.readouterr() == ("", "")
    monkeypatch.delenv("NO_COLOR")
    Screen().picture(Image.new("RGB", (4, 4), "red"))
    assert capsys.readouterr().err.count("▀") == 200
