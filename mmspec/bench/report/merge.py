"""The rows of a run, put together from the folders of its shards."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from mmspec.bench.suite.layouts import LAYOUTS
from mmspec.bench.suite.methods import PROBES
from mmspec.bench.suite.offline import OFFLINE_TASKS, TEXT_TASKS
from mmspec.bench.suite.prediction import StepCosts
from mmspec.bench.suite.rows import PLAIN, PROVENANCE, ROWS, Row, read_rows
from mmspec.bench.suite.settings import Settings
from mmspec.errors import UsageError
from mmspec.jsonfile import read_json

SAME = (
    *(name for name in Settings.__dataclass_fields__ if name != "shard"),
    *("models", "backend", "device", "dtype"),
)
"""What the shards of one run agree in; the machines may be several."""

MACHINE = ("platform", "processor", "threads")

_TASKS = [*OFFLINE_TASKS, *TEXT_TASKS, *LAYOUTS]

Key = TypeVar("Key")
Each = TypeVar("Each")


@dataclass(frozen=True, slots=True)
class Run:
    """All rows of a run, in an order that does not depend on how it was split."""

    directories: tuple[Path, ...]
    rows: list[Row]
    methods: list[str]
    """Those that answered anything, as they were asked for."""
    tasks: list[str]
    """In order of appearance, which is the suite's."""
    told: list[dict[str, Any]]
    """The provenance of each directory."""
    costs: list[StepCosts]
    """Means over the shards; none where these ran on different machines."""
    notes: list[str]
    """What a reader must know of how the run was put together."""

    @property
    def compared(self) -> list[str]:
        """The methods without probes of what a model knows."""
        return [name for name in self.methods if name not in PROBES]

    @property
    def drafting(self) -> list[str]:
        """The methods that speculate."""
        return [name for name in self.compared if name != PLAIN]

    def of(self, *methods: str) -> list[Row]:
        """The rows of some methods."""
        return [row for row in self.rows if row.method in methods]

    @property
    def plain(self) -> list[Row]:
        """The rows of plain decoding."""
        return self.of(PLAIN)


def grouped(every: Iterable[Each], key: Callable[[Each], Key]) -> dict[Key, list[Each]]:
    """What has each key, such as rows; both in order of appearance."""
    groups: dict[Key, list[Each]] = {}
    for each in every:
        groups.setdefault(key(each), []).append(each)
    return groups


def merge(directories: Sequence[Path]) -> Run:
    """Read the folders of one run.

    Raises UsageError for a folder that holds none, settings that differ and rows that are there
    twice, naming them.
    """
    read = [(each, _provenance(each)) for each in directories]
    _check_same(read)
    placed = [(each, row) for each in directories for row in read_rows(_file(each, ROWS))]
    _check_once(placed)
    if not placed:
        raise UsageError(f"{directories[0] / ROWS} has no rows yet: let the run go on first")
    told = [values for _, values in read]
    rows = sorted((row for _, row in placed), key=_order(told[0]["methods"]))
    answered = {row.method for row in rows}
    costs, notes = _costs(told)
    return Run(
        tuple(directories),
        rows,
        methods=[name for name in told[0]["methods"] if name in answered],
        tasks=list(dict.fromkeys(row.task for row in rows)),
        told=told,
        costs=costs,
        notes=[*_missing(told), *notes],
    )


def _file(directory: Path, name: str) -> Path:
    file = directory / name
    if not file.is_file():
        raise UsageError(f"{directory} holds no run: there is no {name}; give the --out of a run")
    return file


def _provenance(directory: Path) -> dict[str, Any]:
    file = _file(directory, PROVENANCE)
    told = read_json(file)
    for name in (*SAME, *MACHINE, "shard", "costs", "skipped"):
        if name not in told:
            raise UsageError(f"{file}: {name!r} is missing; bench run writes it")
    return told


def _check_same(read: Sequence[tuple[Path, dict[str, Any]]]) -> None:
    (first, told), *others = read
    for directory, values in others:
        for name in SAME:
            one, other = _comparable(told, name), _comparable(values, name)
            if one != other:
                raise UsageError(
                    f"not shards of one run: {name} is {_shown(one)} in {first} and "
                    f"{_shown(other)} in {directory}; report them apart"
                )


def _comparable(told: dict[str, Any], name: str) -> Any:
    """A setting; of a model the digest alone, as its folder may be another elsewhere."""
    if name != "models":
        return told[name]
    return {role: model and model["digest"] for role, model in told[name].items()}


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def _check_once(placed: Sequence[tuple[Path, Row]]) -> None:
    places: dict[tuple[str, int, str], list[Path]] = {}
    for directory, row in placed:
        places.setdefault((row.sample, row.turn, row.method), []).append(directory)
    twice = [(key, found) for key, found in places.items() if len(found) > 1]
    if twice:
        (sample, turn, method), found = twice[0]
        more = f", and {len(twice) - 1} more rows" if len(twice) > 1 else ""
        raise UsageError(
            f"{sample} turn {turn} by {method} is twice in {' and '.join(map(str, found))}{more}: "
            "give each shard once"
        )


def _order(methods: Sequence[str]) -> Callable[[Row], tuple[Any, ...]]:
    """Tasks as suites have them, others by name; samples by number, turns, methods as asked for."""

    def key(row: Row) -> tuple[Any, ...]:
        known = _TASKS.index(row.task) if row.task in _TASKS else len(_TASKS)
        return known, row.task, _natural(row.sample), row.turn, methods.index(row.method)

    return key


def _natural(name: str) -> list[tuple[int, str]]:
    """So that chart/9 comes before chart/10."""
    parts = ((digits, "".join(part)) for digits, part in groupby(name, str.isdecimal))
    return [(int(part) if digits else -1, part) for digits, part in parts]


def _missing(told: Sequence[dict[str, Any]]) -> list[str]:
    """Shards that were not given."""
    given = {each["shard"] for each in told}
    count = int(told[0]["shard"].partition("/")[2])
    absent = [f"{i}/{count}" for i in range(1, count + 1) if f"{i}/{count}" not in given]
    return [f"Not all of the run: no shard {', '.join(absent)}."] if absent else []


def _costs(told: Sequence[dict[str, Any]]) -> tuple[list[StepCosts], list[str]]:
    """The mean of what the shards measured for each number of images."""
    machines = {str([each[name] for name in MACHINE]) for each in told}
    if len(machines) > 1:
        return [], [f"The shards ran on {len(machines)} machines, so no speed-up is predicted."]
    measured: dict[int, list[StepCosts]] = {}
    for each in told:
        for entry in each["costs"]:
            measured.setdefault(entry["images"], []).append(StepCosts(**entry))
    return [_mean(every) for _, every in sorted(measured.items())], []


def _mean(every: Sequence[StepCosts]) -> StepCosts:
    return StepCosts(
        every[0].images,
        every[0].prompt_tokens,
        _means([costs.target for costs in every]),
        _means([costs.draft for costs in every]),
        # What earlier versions did not measure a shard may lack.
        _means([costs.refit for costs in every if costs.refit]),
        {
            name: _means([costs.trees[name] for costs in every if name in costs.trees])
            for name in dict.fromkeys(name for costs in every for name in costs.trees)
        },
    )


def _means(every: Sequence[Sequence[float]]) -> list[float]:
    """Place by place."""
    return [fmean(each) for each in zip(*every, strict=True)]
