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
"""Name for all datasets in the `sets` of a column."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a published table: a measure, one of MEASURES, averaged over datasets."""

    name: str
    measure: str
    sets: tuple[str, ...]
    turn: int | None
    """The turn of the measured answers; None for all turns."""

    @property
    def pools(self) -> bool:
        """True if the column averages over more than one dataset."""
        return len(self.sets) > 1 or EVERYTHING in self.sets


@dataclass(frozen=True, slots=True)
class Line:
    """One published row: a value for each column, nan if the paper gives none."""

    label: str
    methods: tuple[str, ...]
    """The corresponding methods of `bench run`, the most similar first."""
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table of published numbers."""

    title: str
    source: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's tables and the conditions they were measured under."""

    title: str
    reference: str
    target: str
    draft: str
    hardware: str
    setting: str
    tasks: dict[str, tuple[str, ...]]
    """By dataset, the tasks of a run that imitate it."""
    tables: tuple[PaperTable, ...]

    @property
    def label(self) -> str:
        """Target, draft, hardware and settings in one sentence."""
        models = f"target {self.target}; draft {self.draft}"
        return f"{self.title}: {models}; hardware {self.hardware}; {self.setting}."


def read_paper(name: str) -> Paper:
    """The paper with a name such as `paper:ibed`; raises UsageError for an unknown one."""
    allowed = [PREFIX + paper for paper in PAPERS]
    if name not in allowed:
        raise choice("comparison", name, allowed)
    entry = dict(_papers()[name.removeprefix(PREFIX)])
    tasks = {dataset: tuple(names) for dataset, names in entry.pop("tasks").items()}
    tables = tuple(map(_table, entry.pop("tables")))
    return Paper(**entry, tasks=tasks, tables=tables)


@cache
def _papers() -> dict[str, Any]:
    text = files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _table(entry: dict[str, Any]) -> PaperTable:
    columns = tuple(
        Column(
            column["name"],
            column.get("measure", entry.get("measure")),
            tuple(column.get("sets", (column["name"],))),
            column.get("turn", entry.get("turn")),
        )
        for column in entry["columns"]
    )
    lines = tuple(
        Line(line["label"], tuple(line["methods"]), tuple(line["values"])) for line in entry["rows"]
    )
    return PaperTable(entry["title"], entry["source"], columns, lines)
