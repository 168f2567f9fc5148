"""Runs a program on the task in stdin: `python -m mmspec_bench.compare MODULE.FUNCTION`."""

import json
import sys
from dataclasses import asdict
from importlib import import_module
from time import time

from mmspec.ground.errors import MmspecError
from mmspec.ground.process_memory import process_peak
from mmspec_bench.compare.script_io import Clock, Program, ProgramRun, Question, Task, failure
from mmspec_bench.measure.timing import Timing


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


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed for {sys.executable}"
    text = " ".join(next(iter(str(error).splitlines()), "").split())[:200]
    if isinstance(error, MmspecError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


if __name__ == "__main__":  # not in processes that a program spawns
    main()
