"""Streamed text is broken between words, however it is cut up and whatever it is made of."""

import textwrap

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from mmspec_terminal.wrapping import Wrap


def shown(pieces, width: int) -> list[str]:
    wrap = Wrap()
    runs = [run for piece in pieces for run in wrap.lay(piece, None, width)]
    text = "".join(text for text, _ in [*runs, *wrap.end(width)])
    return [line.rstrip(" ") for line in text.split("\n")]


WORDS = st.lists(st.text("abcxyz.é,'", min_size=1, max_size=9), min_size=1, max_size=30)


@settings(max_examples=60)
@given(WORDS, st.integers(11, 30), st.data())
def test_lines_are_those_of_a_printer_however_the_text_comes(words, width, data):
    text = " ".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    plain = textwrap.TextWrapper(width - 1, break_on_hyphens=False, drop_whitespace=True)
    assert shown(pieces, width) == plain.wrap(text)


@settings(max_examples=60)
@given(st.text("ab \n\t日本語🙂e\u0301-", max_size=80), st.integers(4, 20), st.data())
def test_nothing_is_lost_and_no_line_is_too_long(text, width, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    lines = shown(pieces, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert max(map(cell_len, lines)) < width


def test_a_word_is_held_back_until_it_ends_or_the_text_does():
    wrap = Wrap()
    assert wrap.lay("one tw", None, 40) == [("one ", None)]
    assert wrap.lay("o th", None, 40) == [("two ", None)]
    assert wrap.end(40) == [("th", None)]
    assert wrap.end(40) == []


def test_the_rest_of_a_line_in_a_list_or_a_quote_stands_below_its_text():
    assert shown(["• one two three\n", "  12. four five six\nx"], 13) == [
        *("• one two", "  three"),
        *("  12. four", "      five", "      six", "x"),
    ]
    assert shown(["│ • aa bb", " cc dd"], 10) == ["│ • aa bb", "│   cc dd"]
    assert shown(["• a verylongword"], 9) == ["• a very", "  longwo", "  rd"]
