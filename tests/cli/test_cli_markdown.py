"""Markdown as it arrives: what is styled, what stays, in pieces of any size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmspec_terminal.markdown import BOLD, CODE, ITALIC, QUOTE, Markdown


def rendered(*pieces: str) -> list[tuple[str, str | None]]:
    """The runs of an answer, neighbours of one style joined."""
    markdown, joined = Markdown(), []
    runs = [run for piece in pieces for run in markdown.push(piece)]
    for text, style in (*runs, *markdown.end()):
        if text and joined and joined[-1][1] == style:
            joined[-1] = (joined[-1][0] + text, style)
        elif text:
            joined.append((text, style))
    return joined


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        ("a **b c** d", [("a ", None), ("b c", BOLD), (" d", None)]),
        (
            "a *b* and _c_.",
            [("a ", None), ("b", ITALIC), (" and ", None), ("c", ITALIC), (".", None)],
        ),
        ("run `x = 1`!", [("run ", None), ("x = 1", CODE), ("!", None)]),
        ("# Title\ntext", [("Title\n", BOLD), ("text", None)]),
        ("## A *b*\n", [("A ", BOLD), ("b", "bold italic"), ("\n", BOLD)]),
        ("- one\n  * two\n", [("• one\n  • two\n", None)]),
        ("> said\nplain", [("│ said\n", QUOTE), ("plain", None)]),
        ("* **b**: c\n", [("• ", None), ("b", BOLD), (": c\n", None)]),
        ("***b*** c\n", [("*", None), ("b", BOLD), ("* c\n", None)]),
        ("a\n---\nb", [("a\n", None), ("─" * 20 + "\n", QUOTE), ("b", None)]),
        ("```python\nx = *y*\n# z\n```\nend", [("x = *y*\n# z\n", CODE), ("end", None)]),
        (
            "|a|bb|\n|-|:-:|\n|ccc|d|\nend",
            [("a    bb\n", BOLD), ("ccc  d\nend", None)],
        ),
        ("|a|b|\nno table", [("|a|b|\nno table", None)]),
        (r"\*not italic\*", [("*not italic*", None)]),
    ],
)
def test_markup_is_styled(source, runs):
    assert rendered(source) == runs


@pytest.mark.parametrize(
    "source",
    [
        "A blue square, and 2 * 3 * 4 = 24.",
        "snake_case_name and __init",
        "f(*args, **kwargs)",
        "an unclosed **bold\nnext line",
        "1. one\n2. two",
        "#hashtag and #1",
        "* ",
        "|",
    ],
)
def test_what_is_no_markup_stays(source):
    text = "".join(text for text, _ in rendered(source))
    assert text.rstrip("\n") == source.replace("* ", "• ", source == "* ").rstrip("\n")


@settings(max_examples=500)
@given(st.text("ab *_`#->|\\\n\t1:", max_size=60), st.lists(st.integers(1, 7), max_size=60))
def test_pieces_of_any_size_give_the_same_runs(source, sizes):
    pieces, start = [], 0
    for size in sizes:
        pieces.append(source[start : start + size])
        start += size
    assert rendered(*pieces, source[start:]) == rendered(source)


@given(st.text("abc .,!?äß漢\n", max_size=60))
def test_text_without_markup_is_written_as_it_is(source):
    assert rendered(source) == ([(source, None)] if source else [])


def test_plain_text_is_not_held_back():
    assert list(Markdown().push("A blue squ")) == [("A blue squ", None)]
