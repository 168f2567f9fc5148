"""The CSV files of a training run and its progress on the terminal."""

import csv
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from mmspec.ground.escape import one_line, visible
from mmspec.ground.output_files import make_directory, replace_file, write_errors

STEPS_FILE = "log.csv"
"""Name of the CSV file with a row for each step."""
EVALUATIONS_FILE = "marks.csv"
"""Name of the CSV file with a row for each figure of an evaluation: stages differ in figures."""
PLAIN_LINE_SECONDS = 30.0
"""Seconds between two lines of progress when the output is not a terminal."""


class Position(NamedTuple):
    """A point in a training run. `seconds` counts the training time of the stage so far."""

    step: int
    stage: str
    seconds: float


@dataclass
class Log:
    """Writes every step to CSV files and shows the progress."""

    directory: Path
    console: Console
    bar: Progress
    tasks: dict[str, TaskID] = field(default_factory=dict)
    last_line: float = float("-inf")
    """Time of the last line of progress, in monotonic seconds."""

    def write_step(self, at: Position, loss: float, rate: float) -> None:
        """Append a row for a step."""
        self._append(STEPS_FILE, at, {"loss": round(loss, 5), "rate": f"{rate:.3e}"})

    def write_evaluation(self, at: Position, figures: Mapping[str, float]) -> None:
        """Append and print an evaluation."""
        for name, number in figures.items():
            self._append(EVALUATIONS_FILE, at, {"figure": name, "value": round(number, 5)})
        text = ", ".join(f"{name} {number:.3f}" for name, number in figures.items())
        self.say(f"{at.stage}: step {at.step}, {text}")

    def drop_rows_after(self, stage: str, step: int) -> None:
        """Delete a stage's rows after `step`: the resumed run writes those steps again."""
        for name in (STEPS_FILE, EVALUATIONS_FILE):
            if (file := self.directory / name).exists():
                header, *rows = file.read_bytes().splitlines(keepends=True) or [b""]
                rows = [row for row in rows if not _is_after(row, stage, step)]
                complete = [header] if header.endswith(b"\n") else []
                with replace_file(file) as partial:
                    partial.write_bytes(b"".join([*complete, *rows]))

    def show(self, stage: str, step: int, progress: float, loss: float | None = None) -> None:
        """Move the stage's progress bar; without a terminal, print a line every 30 seconds."""
        suffix = "" if loss is None else f" loss {loss:.3f}"
        if self.console.is_terminal:
            if stage not in self.tasks:
                self.tasks[stage] = self.bar.add_task(one_line(stage), total=1.0, note="")
            self.bar.update(self.tasks[stage], completed=progress, note=f"step {step}{suffix}")
        elif time.monotonic() - self.last_line > PLAIN_LINE_SECONDS:
            self.last_line = time.monotonic()
            self.say(f"{stage}: step {step}, {100 * progress:.0f} %{suffix}")

    def say(self, line: str) -> None:
        """Print one line."""
        self.console.print(Text(visible(line)), highlight=False, soft_wrap=True)

    @contextmanager
    def say_when_stopped(self, line: Callable[[], str]) -> Iterator[None]:
        """Print `line`, and how to go on, if Ctrl-C or another signal ends the block."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            self.say(f"{line()}; the same command goes on from there")
            raise

    def _append(self, name: str, at: Position, numbers: Mapping[str, object]) -> None:
        cells = {**at._replace(seconds=round(at.seconds, 2))._asdict(), **numbers}
        path = self.directory / name
        with write_errors(path), path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(cells))
            if not file.tell():
                writer.writeheader()
            writer.writerow(cells)


def _is_after(row: bytes, stage: str, step: int) -> bool:
    """Return whether a row is a later step of the stage, or incomplete because of a kill."""
    if not row.endswith(b"\n"):
        return True
    number, name = next(csv.reader([row.decode()]))[:2]
    return name == stage and int(number) > step


@contextmanager
def open_log(directory: Path, console: Console | None = None) -> Iterator[Log]:
    """Open the log of a run in `directory`."""
    console = console or Console()
    name = TextColumn("{task.description}", markup=False)
    columns = name, BarColumn(), "{task.percentage:.0f} %", "{task.fields[note]}"
    make_directory(directory)
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as bar:
        yield Log(directory, console, bar)
