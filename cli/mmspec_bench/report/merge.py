"""Reads a run from the folders of its shards."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mmspec.ground.errors import UsageError
from mmspec_bench.suite.confidence import tokens_per_round
from mmspec_bench.suite.metrics import Summary, summarise
from mmspec_bench.suite.rows import PLAIN, PROVENANCE, ROWS, AnswerRow, read_rows
from mmspec_bench.suite.run_folder import SuiteSettings, read_provenance

SHARED = (
    *(name for name in SuiteSettings.__dataclass_fields__ if name != "shard"),
    *("models", "backend", "device", "dtype"),
)
"""Entries of the provenance in which all shards of a run must agree; the machines may differ."""
ALL = "all"

Key = TypeVar("Key")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BenchRun:
    """All rows of a run, in an order that does not depend on the order of its folders."""

    rows: list[AnswerRow]
    methods: list[str]
    """Names of methods with at least one row, in the order of --methods."""
    tasks: list[str]
    """Names of tasks in the order of the suite."""
    provenances: list[dict[str, Any]]
    """The provenance of each shard's folder, in the order of the shards."""

    @property
    def settings(self) -> dict[str, Any]:
        """The first shard's provenance; all shards agree in SHARED."""
        return self.provenances[0]

    @property
    def drafting(self) -> list[str]:
        """The methods that draft."""
        return [name for name in self.methods if name != PLAIN]

    @property
    def missing_shards(self) -> list[str]:
        """The shards of the run whose folders were not given, such as 2/3."""
        present = {provenance["shard"] for provenance in self.provenances}
        count = int(self.settings["shard"].partition("/")[2])
        return [name for i in range(count) if (name := f"{i + 1}/{count}") not in present]

    def of(self, *methods: str) -> list[AnswerRow]:
        """The rows of the methods named."""
        return [row for row in self.rows if row.method in methods]

    @property
    def summaries(self) -> list[Summary]:
        """All measures of each method, in the order of the methods."""
        return [summarise(self.of(name), self.timed_plain) for name in self.methods]

    @property
    def task_summaries(self) -> list[Summary]:
        """All measures of each method on all tasks and on each, with intervals of tokens."""
        groups = grouped(self.rows, lambda row: (ALL, row.method))
        if len(self.tasks) > 1:
            groups |= grouped(self.rows, lambda row: (row.task, row.method))
        lines = []
        for (task, _), rows in groups.items():
            samples, _, low, high = tokens_per_round(rows)
            ends = {"samples": samples, "low": low, "high": high}
            lines.append({"task": task} | summarise(rows, self.timed_plain) | ends)
        return lines

    @property
    def problem(self) -> str:
        """A line on the programs that disturbed a shard; '' if none did."""
        return max((str(each.get("problem", "")) for each in self.provenances), key=bool)

    @property
    def is_replay(self) -> bool:
        """True if the target repeated answers, so that seconds mean nothing."""
        return bool(self.settings.get("target_answers"))

    @property
    def timed_plain(self) -> list[AnswerRow]:
        """The rows of plain decoding with which speeds are compared."""
        return [] if self.is_replay else self.plain

    @property
    def plain(self) -> list[AnswerRow]:
        """The rows of plain decoding."""
        return self.of(PLAIN)


def grouped(values: Iterable[T], key: Callable[[T], Key]) -> dict[Key, list[T]]:
    """Values grouped by key, in order of appearance."""
    groups: dict[Key, list[T]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def merge(folders: Sequence[Path]) -> BenchRun:
    """Read the folders of one run; raises UsageError for what is missing, other or twice."""
    shards = [(read_provenance(_file(folder, PROVENANCE).parent), folder) for folder in folders]
    shards.sort(key=lambda shard: int(shard[0]["shard"].partition("/")[0]))
    _check_settings(shards)
    placed = [(folder, row) for _, folder in shards for row in read_rows(_file(folder, ROWS))]
    if not placed:
        raise UsageError(f"{folders[0] / ROWS} has no rows: no sample was answered")
    order = shards[0][0]["methods"]
    _check_rows(placed, order)
    tasks = list(dict.fromkeys(row.task for _, row in placed))

    def place(row: AnswerRow) -> tuple[Any, ...]:
        # Longer names are later: chart/10 follows chart/9.
        name = len(row.sample), row.sample
        return tasks.index(row.task), *name, row.turn, order.index(row.method)

    rows = sorted((row for _, row in placed), key=place)
    methods = {row.method for row in rows}
    present = [name for name in order if name in methods]
    return BenchRun(rows, present, tasks, [provenance for provenance, _ in shards])


def _file(folder: Path, name: str) -> Path:
    file = folder / name
    if not file.is_file():
        raise UsageError(f"{folder} holds no run: there is no {name}; give the --out of a run")
    return file


def _check_settings(shards: Sequence[tuple[dict[str, Any], Path]]) -> None:
    (first, place), *others = shards
    for other, folder in others:
        for name in SHARED:
            if (mine := _comparable(first, name)) != (theirs := _comparable(other, name)):
                raise UsageError(
                    f"not shards of one run: {name} is {mine} in {place} and {theirs} in {folder}; "
                    "report them apart"
                )


def _comparable(provenance: dict[str, Any], name: str) -> Any:
    """A setting for comparison; models by digest only, because their folders may differ."""
    if name != "models":
        return provenance.get(name)
    return {role: model and model["digest"] for role, model in provenance[name].items()}


def _check_rows(placed: Sequence[tuple[Path, AnswerRow]], methods: Sequence[str]) -> None:
    """Raise UsageError for a row of a method that the run has not, or that is there twice."""
    places: dict[tuple[str, int, str], Path] = {}
    for folder, row in placed:
        if row.method not in methods:
            raise UsageError(f"{folder / ROWS} has a row of {row.method}, which the run has not")
        key = (*row.key, row.method)
        if key in places:
            raise UsageError(
                f"{row.sample} turn {row.turn} by {row.method} is twice in {places[key]} and "
                f"{folder}: give each shard once"
            )
        places[key] = folder
