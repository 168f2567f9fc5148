"""Reads a run from the folders of its shards."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from mmspec.ground.errors import UsageError
from mmspec_bench.suite.datasets import DATASETS
from mmspec_bench.suite.methods import PROBES
from mmspec_bench.suite.offline import OFFLINE_TASKS, TEXT_TASKS
from mmspec_bench.suite.rows import PLAIN, PROVENANCE, ROWS, Row, read_rows
from mmspec_bench.suite.run_folder import Settings, read_provenance

SHARED = (
    *(name for name in Settings.__dataclass_fields__ if name != "shard"),
    *("models", "backend", "device", "dtype"),
)
"""Entries of the provenance in which all shards of a run must agree; the machines may differ."""

_TASK_ORDER = [*OFFLINE_TASKS, *TEXT_TASKS, *DATASETS]

Key = TypeVar("Key")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BenchRun:
    """All rows of a run, in an order that does not depend on its shards."""

    rows: list[Row]
    methods: list[str]
    """Names of methods with at least one row, in the order of --methods."""
    tasks: list[str]
    """Names of tasks in the order of the suite."""
    provenances: list[dict[str, Any]]
    """The provenance of each shard's folder."""
    notes: list[str]
    """Notes for the reader about the shards."""

    @property
    def settings(self) -> dict[str, Any]:
        """The first shard's provenance; all shards agree in SHARED."""
        return self.provenances[0]

    @property
    def decoding(self) -> list[str]:
        """The methods that decode as users would: all except the probes."""
        return [name for name in self.methods if name not in PROBES]

    @property
    def drafting(self) -> list[str]:
        """The methods that draft."""
        return [name for name in self.decoding if name != PLAIN]

    def of(self, *methods: str) -> list[Row]:
        """The rows of the methods named."""
        return [row for row in self.rows if row.method in methods]

    @property
    def plain(self) -> list[Row]:
        """The rows of plain decoding."""
        return self.of(PLAIN)


def grouped(values: Iterable[T], key: Callable[[T], Key]) -> dict[Key, list[T]]:
    """Values grouped by key, in order of appearance."""
    groups: dict[Key, list[T]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def merge(folders: Sequence[Path]) -> BenchRun:
    """Read the folders of one run.

    Raises UsageError naming a folder without a run, a setting that differs or a duplicate row.
    """
    provenances = [_provenance(folder) for folder in folders]
    _check_settings(folders, provenances)
    placed = [(folder, row) for folder in folders for row in read_rows(_file(folder, ROWS))]
    _check_no_duplicates(placed)
    if not placed:
        raise UsageError(f"{folders[0] / ROWS} has no rows yet: let the run go on first")
    order = provenances[0]["methods"]
    for folder, row in placed:
        if row.method not in order:
            raise UsageError(f"{folder / ROWS} has a row of {row.method}, which the run has not")
    rows = sorted((row for _, row in placed), key=_sort_key(order))
    methods = {row.method for row in rows}
    return BenchRun(
        rows,
        methods=[name for name in order if name in methods],
        tasks=list(dict.fromkeys(row.task for row in rows)),
        provenances=provenances,
        notes=_missing_shards(provenances),
    )


def _file(folder: Path, name: str) -> Path:
    file = folder / name
    if not file.is_file():
        raise UsageError(f"{folder} holds no run: there is no {name}; give the --out of a run")
    return file


def _provenance(folder: Path) -> dict[str, Any]:
    file = _file(folder, PROVENANCE)
    values = read_provenance(folder)
    for name in (*SHARED, "platform", "processor", "threads", "shard", "skipped"):
        if name not in values:
            raise UsageError(f"{file}: {name!r} is missing; give a run of this version")
    return values


def _check_settings(folders: Sequence[Path], provenances: Sequence[dict[str, Any]]) -> None:
    first = provenances[0]
    for folder, other in zip(folders[1:], provenances[1:], strict=True):
        for name in SHARED:
            mine, theirs = _comparable(first, name), _comparable(other, name)
            if mine != theirs:
                raise UsageError(
                    f"not shards of one run: {name} is {mine} in {folders[0]} and {theirs} in "
                    f"{folder}; report them apart"
                )


def _comparable(provenance: dict[str, Any], name: str) -> Any:
    """A setting for comparison; models by digest only, because their folders may differ."""
    if name != "models":
        return provenance[name]
    return {role: model and model["digest"] for role, model in provenance[name].items()}


def _check_no_duplicates(placed: Sequence[tuple[Path, Row]]) -> None:
    groups = grouped(placed, lambda pair: (*pair[1].key, pair[1].method))
    twice = [(key, pairs) for key, pairs in groups.items() if len(pairs) > 1]
    if twice:
        (sample, turn, method), pairs = twice[0]
        more = f", and {len(twice) - 1} more rows" if len(twice) > 1 else ""
        raise UsageError(
            f"{sample} turn {turn} by {method} is twice in "
            f"{' and '.join(str(folder) for folder, _ in pairs)}{more}: give each shard once"
        )


def _sort_key(methods: Sequence[str]) -> Callable[[Row], tuple[Any, ...]]:
    """A sort key: task (suites' order, then names), sample number, turn, method."""

    def key(row: Row) -> tuple[Any, ...]:
        task_order = _TASK_ORDER.index(row.task) if row.task in _TASK_ORDER else len(_TASK_ORDER)
        return task_order, row.task, _natural(row.sample), row.turn, methods.index(row.method)

    return key


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts chart/9 before chart/10."""
    parts = ((digits, "".join(part)) for digits, part in groupby(name, str.isdecimal))
    return [(int(part) if digits else -1, part) for digits, part in parts]


def _missing_shards(provenances: Sequence[dict[str, Any]]) -> list[str]:
    present = {provenance["shard"] for provenance in provenances}
    count = int(provenances[0]["shard"].partition("/")[2])
    absent = [name for i in range(count) if (name := f"{i + 1}/{count}") not in present]
    return [f"Not all of the run: no shard {', '.join(absent)}."] if absent else []
