"""Markdown as it arrives: what is styled, what stays, in pieces of any size."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mmspec_terminal.markdown import BOLD, CODE, ITALIC, QUOTE, Markdown


def rendered(*pieces: str) -> list[tuple[str, str | None]]:
    """The runs of an answer, neighbours of one style joined."""
    markdown, joined = Markdown(lambda: 40), []
    runs = [run for piece in pieces for run in markdown.push(piece)]
    for text, style in (*runs, *markdown.end()):
        if text and joined and joined[-1][1] == style:
            joined[-1] = (joined[-1][0] + text, style)
        elif text:
            joined.append((text, style))
    return joined


def shown(*pieces: str) -> str:
    """The text of an answer as it is on the screen."""
    return "".join(text for text, _ in rendered(*pieces))


def cut(source: str, sizes) -> list[str]:
    pieces = []
    for size in sizes:
        pieces.append(source[:size])
        source = source[size:]
    return [*pieces, source]


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        ("a **b c** d", [("a ", None), ("b c", BOLD), (" d", None)]),
        (
            "a *b* and _c_.",
            [("a ", None), ("b", ITALIC), (" and ", None), ("c", ITALIC), (".", None)],
        ),
        ("a `` b ` c `` d", [("a ", None), ("b ` c", CODE), (" d", None)]),
        ("# Title\ntext", [("Title", BOLD), ("\ntext", None)]),
        ("- one\n  * two\n", [("• one\n  • two\n", None)]),
        ("> said\n\nplain", [("│ said\n", QUOTE), ("\nplain", None)]),
        ("***b*** c\n", [("b", "italic bold"), (" c\n", None)]),
        ("这是**重点**内容", [("这是", None), ("重点", BOLD), ("内容", None)]),
        ("a\n---\nb", [("a\n", None), ("─" * 20, QUOTE), ("\nb", None)]),
        ("```py\nx = *y*\n```\nend", [("x = *y*", CODE), ("\nend", None)]),
        (r"\*not italic\*", [("*not italic*", None)]),
        ("|a|\n|-|\n|**b**|\nend", [("a", BOLD), ("\n", None), ("b", BOLD), ("\nend", None)]),
    ],
)  # fmt: skip
def test_markup_is_styled(source, runs):
    assert rendered(source) == runs
    assert rendered(*source) == runs


@pytest.mark.parametrize(
    "source",
    [
        "A blue square, and 2 * 3 * 4 = 24.",
        "snake_case_name and __init",
        "the __init__ of _a and b",
        "an unclosed **bold\nnext line",
        "https://example.com/_next_/a.js and /_next_/ and _x_(1)",
        r"\(a_1 * b_2\) and \[x*y*z\] and $x_{i}*y*z$ and $$a*b*$$ and a \\ b",
        "\\[\n- a_{1}\n+ *b*\n\\]",
        "1. one\n2. two",
        "3) three\n\n7) seven",
        "a <b>c</b> &amp; [d](e_f_g)",
        "verse\n  indented\n    more",
        "\u3000\u3000段落一\u3000\n\u3000\n\u3000\u3000段落二",
        "|",
        "|a|b|\nno table",
        "|a|b|\n|-|-|\n|1|2|3|",
    ],
)
def test_what_is_no_markup_stays(source):
    assert shown(source) == source
    assert shown(*source) == source


CODE_LINES = ["# get the tools", "for f in *.py *.txt; do echo $MY_VAR_* __init__; done", "a*b*c"]


@pytest.mark.parametrize(
    ("before", "indent", "fence"),
    [
        ("1. Do this:\n\n", "   ", "```"),
        ("- Do this:\n", "  ", "```"),
        ("> quote\n", "> ", "```"),
        ("", "", "~~~"),
        ("Text:\n\n", "    ", ""),
    ],
)
def test_code_is_shown_letter_for_letter(before, indent, fence):
    inner = [*CODE_LINES, *(["```", "# title"] if fence == "~~~" else [])]
    lines = [f"{fence}bash", *inner, fence] if fence else inner
    source = before + "".join(f"{indent}{line}\n" for line in lines) + "\nend"
    assert all(f"{line}\n" in shown(source) for line in inner)
    assert shown(*cut(source, [3] * 100)) == shown(source)


TABLE = "| a | **name** | n |\n|:--|:-:|--:|\n| 日本 | `*x*` | 10 |\n| 🙂 | b \\| c | 5 |\n"


def test_the_columns_of_a_table_are_aligned_whatever_their_letters():
    lines = ["a     name    n", "日本   *x*   10", "🙂    b | c   5"]
    for end in ("", "\u3000 "):
        assert shown(TABLE.replace("\n", f"{end}\n")).splitlines() == lines


MARKUP = st.text("ab *_`#->|\\\n\t1.:$[]()~/é漢\r\u2028", max_size=60)
LINES = st.lists(
    st.sampled_from(
        [
            *("- a", "  - b*", "1. c", "> d", "> - e", "```", "  ```", "~~~", "    f", "|g|h|"),
            *("|-|-|", "**i", "j** k", "`l", "m` n", "", "  ", "# o", "---", "\\[", "\\]", "$$"),
            *("   p", ">", "q \\] r", "*"),
        ]
    ),
    max_size=12,
).map("\n".join)

LONG = st.lists(
    st.sampled_from(["**", "*e", "f*", "`", "g`", "$h", "_d_", "**a b**", "\n", "word " * 40]),
    max_size=40,
).map(" ".join)
"""Paragraphs in which openers and closers are further apart than those are held back."""


@settings(max_examples=120)
@given(MARKUP | LINES | LONG, st.lists(st.integers(1, 7), max_size=60))
@example("-:1", [1, 1])
@example("a\rb\u2028c\n\nd **e**\n\nf g\n\nh", [4] * 9)  # lines end at newlines alone
@example("a\u3000\nb\r\n\u3000\n**c**\x0c\nd", [1] * 14)  # whitespace that parsers drop at ends
@example("\\[\na\nb \\] c", [1] * 12)  # text behind a formula undoes it
@example("*\n  \\*b", [1] * 7)  # an item that begins on the next line
@example("- ~~~\na\n\n", [1] * 8)  # a fence without lines
@example("- ```py\n  b\n", [1] * 12)
@example("*.`*.`", [5])
@example("**1. Dogs**\n" * 40, [8] * 60)
def test_pieces_of_any_size_give_the_same_runs(source, sizes):
    assert rendered(*cut(source, sizes)) == rendered(source)


@settings(max_examples=200)
@given(MARKUP | LINES)
@example("`l\n$$\n`l\n$$\n- a")
def test_the_letters_are_on_the_screen_in_order(source):
    letters = re.sub(r"[^a-z0-9é漢]", "", source)
    assert re.sub(r"[^a-z0-9é漢]", "", shown(source)) == letters


@settings(max_examples=150)
@given(st.text("ab *`.\n", max_size=40))
def test_no_star_is_lost_but_those_that_are_emphasis_in_commonmark(source):
    tokens = MarkdownIt("commonmark").parse(source)
    literal = sum(each.content.count("*") for token in tokens for each in token.children or [token])
    assert shown(source).count("*") >= literal


def test_plain_text_is_not_held_back_and_what_is_never_closed_for_a_while_alone():
    markdown = Markdown(lambda: 40)
    assert list(markdown.push("A blue squ")) == [("A blue squ", None)]
    assert list(markdown.push("are **and")) == [("are ", None)]
    assert list(markdown.push("** a")) == [("and", BOLD), (" a", None)]
    quote = [("> b", None), ("\n", None), ("│ ", QUOTE), ("c", QUOTE)]
    assert list(markdown.push("> b\n> c")) == quote
    for opener in ("**", "`", "$x", "\\(", "*", "_"):
        markdown, source = Markdown(lambda: 40), f"a {opener}b " + "word " * 200
        pieces = [f"{word} " for word in source.split(" ")]
        written = "".join(text for piece in pieces for text, _ in markdown.push(piece))
        assert source.startswith(written)
        assert len(source) - len(written) < 10
