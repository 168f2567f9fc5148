"""What the scripts share: tasks, programs and reports.

A script may run in another project's environment, with only the core of mmspec installed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from mmspec_bench.measure.timing import Timing

Question = list[dict[str, str]]
"""A message's parts in order as transformers has them, each with `type`, and `text` or `path`."""


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


def text_of(question: Question) -> str:
    """The text of a question."""
    return "".join(part.get("text", "") for part in question)


def images_of(question: Question) -> list[str]:
    """The files of a question's images."""
    return [part["path"] for part in question if "path" in part]
