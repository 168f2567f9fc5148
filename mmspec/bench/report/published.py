"""Published numbers, read from `published.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from mmspec.errors import choice

PREFIX = "paper:"
PAPERS = ("ibed", "tabed", "mmspec")
EVERYTHING = "all"


@dataclass(frozen=True, slots=True)
class Column:
    """The mean of a measure (of `beside.MEASURES`) over datasets; turn None takes all."""

    name: str
    measure: str
    sets: tuple[str, ...]
    turn: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """One published row: a value for each column, nan where there is none."""

    label: str
    methods: tuple[str, ...]
    """What this project calls it, the nearest first."""
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One published table."""

    title: str
    source: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]

    def line(self, method: str) -> Line | None:
        """The published row of a method."""
        return next((each for each in self.lines if method in each.methods), None)


@dataclass(frozen=True, slots=True)
class Paper:
    """What was published, and on what."""

    title: str
    reference: str
    target: str
    draft: str
    hardware: str
    setting: str
    tasks: dict[str, tuple[str, ...]]
    """By dataset, the tasks that stand for it."""
    tables: tuple[PaperTable, ...]

    @property
    def label(self) -> str:
        """Target, draft, hardware and settings in one sentence."""
        return (
            f"{self.title}: target {self.target}; draft {self.draft}; hardware {self.hardware}; "
            f"{self.setting}."
        )


def read_paper(word: str) -> Paper:
    """The paper of a word such as `paper:ibed`; raises UsageError with the nearest name."""
    known = [PREFIX + name for name in PAPERS]
    if word not in known:
        raise choice("comparison", word, known)
    values = dict(_papers()[word.removeprefix(PREFIX)])
    tasks = {name: tuple(each) for name, each in values.pop("tasks").items()}
    tables = tuple(_table(each) for each in values.pop("tables"))
    return Paper(**values, tasks=tasks, tables=tables)


@cache
def _papers() -> dict[str, Any]:
    text = files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _table(given: dict[str, Any]) -> PaperTable:
    columns = tuple(
        Column(
            each["name"],
            each.get("measure", given.get("measure")),
            tuple(each.get("sets", (each["name"],))),
            each.get("turn", given.get("turn")),
        )
        for each in given["columns"]
    )
    lines = tuple(
        Line(each["label"], tuple(each["methods"]), tuple(each["values"])) for each in given["rows"]
    )
    return PaperTable(given["title"], given["source"], columns, lines)
