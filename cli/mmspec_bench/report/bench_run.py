"""Reads a run from its folder, or from those of its shards."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from mmspec.ground.errors import UsageError
from mmspec_bench.suite.metrics import Summary, summarise, tokens_per_round
from mmspec_bench.suite.rows import PLAIN, PROVENANCE, ROWS, AnswerRow, read_rows
from mmspec_bench.suite.run_folder import SHARED, read_provenance
from mmspec_terminal.wording import quantity

ALL = "all"
"""The task that stands for all tasks in a table."""


@dataclass(frozen=True, slots=True)
class BenchRun:
    """All rows of a run."""

    rows: list[AnswerRow]
    """In the order of --methods, then as they were answered."""
    methods: list[str]
    """Names of methods with at least one row, in the order of --methods."""
    tasks: list[str]
    """Names of tasks in the order of the suite."""
    settings: dict[str, Any]
    """The content of the first folder's `provenance.json`; `skipped` and `problem` of all."""

    @property
    def drafting(self) -> list[str]:
        """The methods that draft."""
        return [name for name in self.methods if name != PLAIN]

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
        lines = []
        tasks = self.tasks if len(self.tasks) > 1 else []
        for task, method in product([None, *tasks], self.methods):
            rows = [row for row in self.of(method) if task in (None, row.task)]
            if rows:
                samples, _, low, high = tokens_per_round(rows)
                ends = {"samples": samples, "low": low, "high": high}
                lines.append({"task": task or ALL} | summarise(rows, self.timed_plain) | ends)
        return lines

    @property
    def turn_summaries(self) -> list[Summary]:
        """All measures of each method by task, turn and images."""
        groups = defaultdict[tuple[Any, ...], list[AnswerRow]](list)
        for row in self.rows:
            groups[row.task, row.turn, row.images, row.method].append(row)
        return [
            {"task": task, "turn": turn, "images": images} | summarise(rows, self.timed_plain)
            for (task, turn, images, _), rows in groups.items()
        ]

    @property
    def problem(self) -> str:
        """A line on programs that disturbed the run and on missing answers; '' without either."""
        questions = {row.key for row in self.rows}
        missing = {
            name: len(questions - {row.key for row in self.of(name)})
            for name in self.settings["methods"]
        }
        lacking = ", ".join(f"{name} {number}" for name, number in missing.items() if number)
        number = quantity(len(questions), "question")
        unequal = (
            f"methods do not compare: of {number} answers are missing ({lacking}); "
            "`bench run --resume` adds them"
        )
        return "; ".join(filter(None, [self.settings.get("problem"), lacking and unequal]))

    @property
    def is_replay(self) -> bool:
        """True if the target repeated answers, so that seconds mean nothing."""
        return bool(self.settings.get("target_answers"))

    @property
    def timed_plain(self) -> list[AnswerRow]:
        """The rows of plain decoding with which speeds are compared."""
        return [] if self.is_replay else self.of(PLAIN)


def read_run(*folders: Path) -> BenchRun:
    """Read a run; raises UsageError for a folder without one, and for shards that do not fit."""
    provenances = [read_provenance(_file(folder, PROVENANCE).parent) for folder in folders]
    settings, order = provenances[0], provenances[0]["methods"]
    rows: dict[Hashable, AnswerRow] = {}
    for folder, other in zip(folders, provenances, strict=True):
        for name in SHARED:
            if _shared(other, name) != _shared(settings, name):
                raise UsageError(f"{folder} is no shard of {folders[0]}: {name} differs")
        for row in read_rows(_file(folder, ROWS)):
            if row.method not in order:
                unknown = f"a row of {row.method}, which the run has not"
                raise UsageError(f"{folder / ROWS} has {unknown}")
            if rows.setdefault((*row.key, row.method), row) is not row:
                raise UsageError(f"{folder} has {row.sample} again: give each shard once")
    if not rows:
        raise UsageError(f"{folders[0] / ROWS} has no rows: no sample was answered")
    samples = {row.sample for row in rows.values()}
    entries = [entry for provenance in provenances for entry in provenance["skipped"]]
    entries = [entry for entry in entries if entry.get("sample") not in samples]
    problems = dict.fromkeys(provenance.get("problem") for provenance in provenances)
    in_order = sorted(rows.values(), key=lambda row: order.index(row.method))
    return BenchRun(
        in_order,
        [*dict.fromkeys(row.method for row in in_order)],
        [*dict.fromkeys(row.task for row in rows.values())],
        settings | {"skipped": entries, "problem": "; ".join(filter(None, problems))},
    )


def _shared(provenance: dict[str, Any], name: str) -> Any:
    """A setting for comparison; of models their digests, because their folders may differ."""
    if name != "models":
        return provenance.get(name)
    return {role: model and model["digest"] for role, model in provenance[name].items()}


def _file(folder: Path, name: str) -> Path:
    file = folder / name
    if not file.is_file():
        raise UsageError(f"{folder} holds no run: there is no {name}; give the --out of a run")
    return file
