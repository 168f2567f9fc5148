"""Turns the arguments that errors of the Python API name into the options of the commands."""

import re

ADAPTIVE = dict.fromkeys(("rule", "window", "carry"), "adaptive")
TREE = dict.fromkeys(("width", "nodes"), "tree")
_GROUPS = ADAPTIVE | TREE
"""The option whose name comes first in that of an argument of `Adaptation` or `Tree`."""

_ARGUMENT = re.compile(r"`([a-z_]+)(?:=([^`\s]*))?`")


def with_flags(text: str) -> str:
    """`text` with arguments between backticks as options.

    >>> with_flags("`max_new_tokens=0`: give 1 or more, or leave `tree` out")
    '--max-new-tokens 0: give 1 or more, or leave --tree out'
    """
    return _ARGUMENT.sub(_flag, text)


def _flag(match: re.Match[str]) -> str:
    name, value = match.groups()
    words = [_GROUPS[name], name] if name in _GROUPS else name.split("_")
    return " ".join(filter(None, [f"--{'-'.join(words)}", value]))
