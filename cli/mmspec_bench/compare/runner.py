"""Runs every method's script in turn, each in its own process; medians and ranges of results."""

import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, time
from typing import Any

from mmspec.checkpoints.head_export import export_head
from mmspec.ground.errors import MmspecError
from mmspec.ground.progress import Progress, silent
from mmspec_bench.compare.methods import PeerMethod
from mmspec_bench.measure.speed import Spread, rotated
from mmspec_bench.script_io import Reply, Run, Task

LIMIT_SECONDS = 1800.0
"""Seconds after which a process is stopped."""
GLANCE_SECONDS = 0.5
"""Seconds between two looks at what a process shows."""


class PeerError(Exception):
    """The reason why a method cannot run, as one line for the table; other methods still run."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one method on one set of questions: speeds, ratios, equal answers."""

    tokens_per_second: Spread
    speed_up: Spread
    """Ratio of the method's speed to the first method's on the same question in the same turn."""
    first_token_seconds: Spread
    tokens_per_round: float
    identical: int
    """Number of answers equal to the first method's, token for token."""
    answers: int


@dataclass(frozen=True, slots=True)
class PeerResult:
    """The results of one method: for each set of questions `figures`, or the reason for none."""

    name: str
    load_seconds: float | None
    start_seconds: float | None
    """Seconds from the start of the process to its first token."""
    peak_memory_bytes: int
    figures: dict[str, Figures]
    reasons: dict[str, str]
    described: dict[str, Any]


RunScript = Callable[[Sequence[str], Task, Progress], Run]
"""Function that runs a command on a task and shows what it does."""


def compare(
    methods: Sequence[PeerMethod], task: Task, turns: int, progress: Progress, run: RunScript
) -> list[PeerResult]:
    """Run the task with all methods in turn, `turns` times; compare each with the first method.

    The order rotates.  A method that fails is not run again, and its result has the reason.
    """
    runs: dict[str, list[Run]] = {method.name: [] for method in methods}
    failures: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        for turn in range(turns):
            for method in rotated(methods, turn):
                if method.name in failures:
                    continue
                now = f"turn {turn + 1} of {turns}: {method.name}"
                progress(now)
                show = partial(_show, progress, now)
                try:
                    own = own_task(method, task, folder)
                    runs[method.name].append(run(method.command, own, show))
                except PeerError as error:
                    failures[method.name] = str(error)
    first = runs[methods[0].name]
    for name, reason in failures.items():
        broken = Run(0.0, None, 0, {}, dict.fromkeys(task.questions, reason), {})
        runs[name].append(broken)
    return [_result(name, every, first) for name, every in runs.items()]


def _show(progress: Progress, now: str, line: str) -> None:
    progress(f"{now}: {line}")


def own_task(method: PeerMethod, task: Task, folder: str) -> Task:
    """The task with the method's options and its draft, if any, in a layout that it can read.

    folder: for exported heads, which all turns share.  Raises PeerError if there is no such draft.
    """
    draft = task.draft if method.drafts else None
    if method.drafts and draft is None:
        raise PeerError("needs a draft: name one with --draft")
    if draft and method.exports:
        draft = _exported(Path(draft), Path(task.model), Path(folder) / "head")
    return replace(task, draft=draft, options=method.options)


def _exported(head: Path, target: Path, into: Path) -> str:
    """The head in the layout of vLLM and speculators, written to `into` at first."""
    try:
        if not into.exists():
            export_head(head, target, "speculators", into, str(target))
    except MmspecError as error:
        raise PeerError(f"needs an EAGLE-3 head: {error}") from error
    return str(into)


def run_script(
    command: Sequence[str],
    task: Task,
    progress: Progress = silent,
    limit_seconds: float = LIMIT_SECONDS,
) -> Run:
    """Run a script on a task; raises PeerError if it reports nothing.

    progress: shows what the script shows.
    """
    with TemporaryDirectory() as folder:
        file, shown = Path(folder) / "task.json", Path(folder) / "progress.txt"
        own = {"started": time(), "progress_file": str(shown)}
        file.write_text(json.dumps(asdict(task) | own), encoding="utf-8")
        with _started([*command, str(file)]) as process:
            output, errors = _outputs(process, limit_seconds, shown, progress)
    if process.returncode:
        last = _last_line(errors)[:200]
        raise PeerError(f"ended with status {process.returncode}" + (f": {last}" if last else ""))
    report = json.loads(_last_line(output))
    if "error" in report:
        raise PeerError(report["error"])
    replies = {
        label: [Reply(**reply) for reply in every] for label, every in report["replies"].items()
    }
    return Run(**report | {"replies": replies})


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    """The process of a command, whose outputs are read; raises PeerError if there is none."""
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise PeerError(f"cannot start {command[0]}: {error.strerror}") from error


def _outputs(
    process: subprocess.Popen[str], limit_seconds: float, shown: Path, progress: Progress
) -> tuple[str, str]:
    """All that a process writes to stdout and to stderr; meanwhile shows the line in a file.

    An exception here kills the process, PeerError after `limit_seconds` among them.
    """
    end = monotonic() + limit_seconds
    try:
        while (left := end - monotonic()) > 0:
            with suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=min(left, GLANCE_SECONDS))
            if shown.exists():
                progress(shown.read_text(encoding="utf-8"))
        raise PeerError(f"no answer within {limit_seconds:g} seconds")
    except BaseException:
        process.kill()
        raise


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _result(name: str, runs: Sequence[Run], first: Sequence[Run]) -> PeerResult:
    reasons: dict[str, str] = {}
    for run in runs:
        reasons |= run.reasons
    labels = [label for label in runs[0].replies if label not in reasons]
    starts = [run.start_seconds for run in runs if run.start_seconds is not None]
    return PeerResult(
        name,
        median(run.load_seconds for run in runs) if starts else None,
        median(starts) if starts else None,
        max(run.peak_bytes for run in runs),
        {label: figures(_paired(label, runs, first)) for label in labels},
        reasons,
        runs[0].described,
    )


def _paired(
    label: str, runs: Sequence[Run], first: Sequence[Run]
) -> list[tuple[Reply, Reply | None]]:
    """Each reply, and the first method's reply to the same question in the same turn."""
    pairs: list[tuple[Reply, Reply | None]] = []
    for run, other in zip_longest(runs, first[: len(runs)]):
        theirs = other.replies.get(label, ()) if other else ()
        pairs += zip_longest(run.replies[label], theirs)
    return pairs


def figures(pairs: Sequence[tuple[Reply, Reply | None]]) -> Figures:
    """Compare one method's replies with the first's; an answer of one token has no speed."""
    rates = [reply.tokens_per_second for reply, _ in pairs]
    ratios = [
        rate / other.tokens_per_second
        for rate, (_, other) in zip(rates, pairs, strict=True)
        if rate and other and other.tokens_per_second
    ]
    return Figures(
        Spread.of([rate for rate in rates if rate] or [0.0]),
        Spread.of(ratios or [0.0]),
        Spread.of([reply.first_token_seconds for reply, _ in pairs]),
        sum(reply.known for reply, _ in pairs) / sum(reply.rounds for reply, _ in pairs),
        sum(other is not None and reply.tokens == other.tokens for reply, other in pairs),
        len(pairs),
    )
