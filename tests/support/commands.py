"""Run `mmspec` in this process, as the installed script would."""

from collections.abc import Callable
from typing import NamedTuple


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]
