"""Reads the argument of a chat's command: paths, settings, numbers."""

import re

from mmspec.ground.errors import UsageError, choice

_WORD = re.compile(r"""(?:"([^"]+)"|'([^']+)'|((?:\\.|[^\s\\])+))(?=\s|$)""")


def path(typed: str) -> str:
    """The path in an argument, in which quotes or backslashes may protect spaces."""
    if len(typed) > 1 and typed[0] == typed[-1] and typed[0] in "'\"":
        return typed[1:-1]
    return _unescaped(typed)


def paths(typed: str) -> list[str]:
    """The paths in an argument, separated by spaces; quotes or backslashes protect spaces."""
    return [match[1] or match[2] or _unescaped(match[3]) for match in _WORD.finditer(typed)]


def switch(name: str, argument: str) -> bool:
    """True for on, False for off; raises UsageError for other words after the command `name`."""
    if argument not in ("on", "off"):
        raise choice(f"setting of {name}", argument, ["on", "off"])
    return argument == "on"


def count(name: str, argument: str) -> int:
    """A number after the command `name`; raises UsageError for other words."""
    try:
        return int(argument)
    except ValueError as error:
        raise UsageError(f"{name} {argument}: give a number") from error


def _unescaped(typed: str) -> str:
    return re.sub(r"\\(.)", r"\1", typed)
