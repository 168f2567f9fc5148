"""Words that commands add: options for arguments of the Python API, and links to the site."""

import re

SITE = "https://mmspec.github.io/mmspec"
"""The address of the site; `Documentation` in pyproject.toml."""

TREE = dict.fromkeys(("width", "nodes"), "tree")
"""The option whose name comes first in that of an argument of `Tree`."""

_ARGUMENT = re.compile(r"`([a-z_]+)(?:=([^`\s]*))?`")


def with_flags(text: str) -> str:
    """`text` with arguments between backticks as options.

    >>> with_flags("`max_new_tokens=0`: give 1 or more, or leave `tree` out")
    '--max-new-tokens 0: give 1 or more, or leave --tree out'
    """
    return _ARGUMENT.sub(_flag, text)


def _flag(match: re.Match[str]) -> str:
    name, value = match.groups()
    words = [TREE[name], name] if name in TREE else name.split("_")
    return " ".join(filter(None, [f"--{'-'.join(words)}", value]))


def more(page: str, place: str = "") -> str:
    """A line that says where a page explains what was shown; place: a heading's anchor."""
    return f"More: {SITE}/{page}/{place and f'#{place}'}"


def counted(number: int, noun: str) -> str:
    """`3 questions`, `1 question`."""
    return f"{number} {noun}{'s' * (number != 1)}"
