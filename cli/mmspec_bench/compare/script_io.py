"""What the scripts share: reads a task, answers its questions, prints a JSON line.

A script may run in another project's environment, with only the core of mmspec installed.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from time import perf_counter, time
from typing import Any

from mmspec.ground.errors import MmspecError
from mmspec.ground.process_memory import process_peak
from mmspec_bench.measure.timing import Timing

Question = list[dict[str, str]]
"""A message's parts in order, each `{"text": TEXT}` or `{"image": FILE}`."""


@dataclass(frozen=True, slots=True)
class Task:
    """The task of one process: load a checkpoint and answer every question once."""

    model: str
    """Directory of the checkpoint."""
    draft: str | None
    """Directory of the draft; None decodes without one."""
    device: str
    dtype: str
    options: dict[str, Any]
    max_tokens: int
    questions: dict[str, list[Question]]
    """Questions by set; each is asked in a new conversation and answered greedily."""
    start: float = 0.0
    """Start of the process, as seconds of `time()`."""


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """The report of one process."""

    start_seconds: float | None
    """Seconds from the start of the process to its first token."""
    peak_bytes: int
    replies: dict[str, list[Timing]]
    reasons: dict[str, str]
    """Why a set of questions was not answered, by the set's name."""
    facts: dict[str, Any]


def failure(task: Task, reason: str) -> ProgramRun:
    """The report of a process that could not answer any set."""
    return ProgramRun(None, 0, {}, dict.fromkeys(task.questions, reason), {})


class Clock:
    """Records when each part of an answer was complete."""

    def __init__(self) -> None:
        self._start = perf_counter()
        self.events: list[tuple[int, float]] = []
        """At each event, the number of complete tokens and the seconds since the question.

        The time before the first event includes pixels, the tower and the prefill.
        """

    def record(self, tokens: int) -> None:
        """Record that `tokens` tokens of the answer are complete."""
        if tokens > (self.events[-1][0] if self.events else 0):
            self.events.append((tokens, perf_counter() - self._start))


@dataclass(frozen=True)
class Program:
    """A loaded model, used as its project documents."""

    answer: Callable[[Question, Clock], tuple[list[int], int]]
    """Answers from cold caches; returns tokens without a stop token, and target forwards."""
    facts: dict[str, Any]
    """Device, precision and other facts on which its speed depends."""
    device_bytes: Callable[[], int] | None = None
    """Function that returns the most bytes in use at once by the device's counter, if it has one;
    0 if that counts nothing, as on a CPU."""


def main() -> None:
    """Run the task in stdin by the function that the last argument names, and print the report.

    The report is the last line of stdout, because libraries may print before it.
    """
    task = Task(**json.load(sys.stdin))
    module, _, name = sys.argv[-1].rpartition(".")
    try:
        report = _report(getattr(import_module(f"{__package__}.{module}"), name)(task), task)
    except Exception as error:  # noqa: BLE001 - whatever another project raises is its reason
        report = failure(task, _reason(error))
    sys.stdout.write(f"\n{json.dumps(asdict(report))}\n")


def _report(program: Program, task: Task) -> ProgramRun:
    """Answer every set once after a warm-up; one that cannot be answered has its reason."""
    load_seconds, start_seconds = time() - task.start, None
    replies: dict[str, list[Timing]] = {}
    reasons: dict[str, str] = {}
    for label, questions in task.questions.items():
        try:
            warm_up = _time_answer(program, questions[0])
            start_seconds = start_seconds or load_seconds + warm_up.first_token_seconds
            replies[label] = [_time_answer(program, question) for question in questions]
        except Exception as error:  # noqa: BLE001 - a set that it cannot answer stops no other
            reasons[label] = _reason(error)
    from mmspec.diagnostics.provenance import versions  # after the start-up, which is measured

    peak_bytes = (program.device_bytes and program.device_bytes()) or process_peak()
    facts = program.facts | {"versions": versions()}
    return ProgramRun(start_seconds, peak_bytes, replies, reasons, facts)


def _time_answer(program: Program, question: Question) -> Timing:
    """Answer once; speed counts what came after the first tokens."""
    clock = Clock()
    tokens, rounds = program.answer(question, clock)
    if not clock.events:
        raise ValueError("it answered without a token")
    (first, start), (last, end) = clock.events[0], clock.events[-1]
    return Timing(tokens, last, rounds, last - first, end - start, start)


def text_of(question: Question) -> str:
    """The text of a question."""
    return "".join(part.get("text", "") for part in question)


def images_of(question: Question) -> list[str]:
    """The files of a question's images."""
    return [part["image"] for part in question if "image" in part]


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed for {sys.executable}"
    text = " ".join(next(iter(str(error).splitlines()), "").split())[:200]
    if isinstance(error, MmspecError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
