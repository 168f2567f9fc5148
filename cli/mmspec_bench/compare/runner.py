"""Runs every method's script in turn, each in its own process, and compares their answers."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import time
from typing import Any

import msgspec

from mmspec.checkpoints.head_export import export_head
from mmspec.diagnostics.prompts import Prompt
from mmspec.ground.errors import BackendError, MmspecError, UsageError
from mmspec.ground.progress import Progress
from mmspec.ground.tokens import common_prefix
from mmspec_bench.compare.methods import PeerMethod
from mmspec_bench.compare.script_io import ProgramRun, Question, Task, failure
from mmspec_bench.measure.timing import Figures, Pair, figures, rotate

LIMIT_SECONDS = 1800.0
"""Seconds after which a process is stopped."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often two ways of decoding gave the same answer."""

    answers: int
    identical: int
    first_difference: int | None
    """The least number of equal tokens before a difference; None if there is none."""


@dataclass(frozen=True, slots=True)
class PeerResult:
    """The results of one method: for each set of questions `figures`, or the reason for none."""

    name: str
    start_seconds: float | None
    """Seconds from the start of the process to its first token."""
    peak_memory_bytes: int
    figures: dict[str, Figures]
    own_plain: dict[str, Agreement]
    """How the answers agree with those of the same program's plain decoding."""
    reasons: dict[str, str]
    described: dict[str, Any]
    """Facts on which its speed depends."""


def question_of(prompt: Prompt, folder: Path) -> Question:
    """The prompt's parts in order; its pictures are written as files to `folder`."""
    question: Question = []
    for part in prompt.message.parts:
        if isinstance(part, str):
            question.append({"type": "text", "text": part})
            continue
        if part.frames:
            raise UsageError(f"{part.name}: programs are compared on images, not on clips")
        file = folder / f"{part.digest}.png"
        part.image.save(file)
        question.append({"type": "image", "path": str(file)})
    return question


def compare(
    methods: Sequence[PeerMethod], task: Task, turns: int, progress: Progress
) -> Iterator[list[PeerResult]]:
    """Run the task with all methods in turn, `turns` times; compare each with the first method.

    Yields the results so far after each process.  The order rotates.  A method that fails is not
    run again, and its result has the reason.
    """
    runs: dict[str, list[ProgramRun]] = {method.name: [] for method in methods}
    first = runs[methods[0].name]
    plain = {method.program: runs[method.name] for method in reversed(methods)}
    with TemporaryDirectory() as folder:
        for turn in range(turns):
            for method in rotate(methods, turn):
                own_runs = runs[method.name]
                if own_runs and not own_runs[-1].replies:  # it failed
                    continue
                progress(f"turn {turn + 1} of {turns}: {method.name}")
                command = [method.python, "-m", "mmspec_bench.compare", method.script]
                try:
                    own_runs.append(run_script(command, task_of(method, task, folder)))
                except MmspecError as error:
                    own_runs.append(failure(task, str(error)))
                yield [
                    _result(other.name, runs[other.name], first, plain[other.program])
                    for other in methods
                    if runs[other.name]
                ]


def task_of(method: PeerMethod, task: Task, folder: str) -> Task:
    """The task with the method's options and its draft, if any, in a layout that it can read.

    folder: for exported heads, which all turns share.  Raises UsageError if there is no such draft.
    """
    draft = task.draft if method.drafts else None
    if method.drafts and draft is None:
        raise UsageError("needs a draft: name one with --draft")
    if draft and method.exports:
        head = Path(folder) / "head"
        try:
            if not head.exists():
                export_head(Path(draft), Path(task.model), "speculators", head, task.model)
        except MmspecError as error:
            raise UsageError(f"needs a head that vLLM runs: {error}") from error
        draft = str(head)
    return replace(task, draft=draft, options=method.options)


def run_script(command: Sequence[str], task: Task) -> ProgramRun:
    """Run a script with the task as its input; raises BackendError if it reports nothing."""
    try:
        process = subprocess.run(
            command,
            input=json.dumps(asdict(task) | {"start": time()}),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except OSError as error:
        raise BackendError(f"cannot start {command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise BackendError(f"no answer within {LIMIT_SECONDS:g} seconds") from error
    if process.returncode:
        last = _last_line(process.stderr)[:200]
        reason = f": {last}" if last else ""
        raise BackendError(f"ended with status {process.returncode}{reason}")
    try:  # json, as a script writes it: msgspec reads no NaN and no half of a surrogate pair
        return msgspec.convert(json.loads(_last_line(process.stdout)), ProgramRun)
    except (ValueError, msgspec.MsgspecError) as error:
        raise BackendError("ended without a report") from error


def _last_line(text: str) -> str:
    return ["", *filter(None, map(str.strip, text.splitlines()))][-1]


def _result(
    name: str, runs: Sequence[ProgramRun], first: Sequence[ProgramRun], plain: Sequence[ProgramRun]
) -> PeerResult:
    reasons = {label: reason for run in runs for label, reason in run.reasons.items()}
    labels = [label for label in runs[0].replies if label not in reasons]
    starts = [run.start_seconds for run in runs if run.start_seconds is not None]
    return PeerResult(
        name,
        median(starts) if starts else None,
        max(run.peak_bytes for run in runs),
        {label: figures(name, _pairs(label, runs, first)) for label in labels},
        {label: _agreement(_pairs(label, runs, plain)) for label in labels},
        reasons,
        runs[0].facts,
    )


def _agreement(pairs: Sequence[Pair]) -> Agreement:
    answers = [(own.tokens, plain.tokens) for own, plain in pairs if plain]
    places = [common_prefix(*tokens) for tokens in answers if tokens[0] != tokens[1]]
    return Agreement(len(answers), len(answers) - len(places), min(places, default=None))


def _pairs(label: str, runs: Sequence[ProgramRun], others: Sequence[ProgramRun]) -> list[Pair]:
    """Each answer, and the others' to the same question in the same turn."""
    pairs = list[Pair]()
    for run, other in zip_longest(runs, others[: len(runs)]):
        pairs += zip_longest(run.replies[label], other.replies.get(label, ()) if other else ())
    return pairs
