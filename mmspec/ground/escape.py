"""Makes text from models, files and servers safe to show on a terminal."""

_CARET = {code: "^" + chr(code ^ 0x40) for code in (*range(32), 127) if chr(code) not in "\t\n"}
_C1 = {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
# These reorder what is already on the line, so that text could read as something else.
_BIDIRECTIONAL = {
    code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
_LINE_ENDS = (0x2028, 0x2029)  # at which some readers of JSON lines part a line
_IN_JSON = {code: f"\\u{code:04x}" for code in (127, *_C1, *_LINE_ENDS, *_BIDIRECTIONAL)}
_VISIBLE = _CARET | _C1 | _BIDIRECTIONAL


def visible(text: str) -> str:
    r"""Spell out control characters, all but newline and tab, so that none reaches a terminal.

    >>> visible("\x1b[31mred")
    '^[[31mred'
    """
    return text.translate(_VISIBLE)


def visible_json(text: str) -> str:
    r"""Spell out in a JSON document the control characters and ends of lines that it may hold.

    >>> visible_json('"\x9b"')
    '"\\u009b"'
    """
    return text.translate(_IN_JSON)


def one_line(text: str) -> str:
    """`visible` text on one line, with each run of whitespace as one space."""
    return visible(" ".join(text.split()))
