"""Words that commands add: options for arguments of the Python API, and counts."""

import re
from collections.abc import Container

_ARGUMENT = re.compile(r"`([a-z_]+)(?:=([^`\s]*))?`")


def with_flags(text: str, commands: Container[str] = ()) -> str:
    """`text` with arguments between backticks as options, or as the commands of those names.

    >>> with_flags("`max_new_tokens=0`: give 1 or more, or leave `tree` out", ["/tree"])
    '--max-new-tokens 0: give 1 or more, or leave /tree out'
    """

    def flag(match: re.Match[str]) -> str:
        name, value = match.groups()
        option = "tree-" * (name in ("width", "nodes")) + name.replace("_", "-")
        prefix = "/" if f"/{option}" in commands else "--"
        return f"{prefix}{option} {value or ''}".rstrip()

    return _ARGUMENT.sub(flag, text)


def names_word(text: str, word: str) -> bool:
    """True if a text names an option, model or value, not one that only begins or ends so."""
    return re.search(rf"(?<![\w/.-])(?:--)?{re.escape(word)}(?![\w/-])", text) is not None


def quantity(number: int, noun: str) -> str:
    """`3 questions`, `1 question`."""
    return f"{number} {noun}{'s' * (number != 1)}"
