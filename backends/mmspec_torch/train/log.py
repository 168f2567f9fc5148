"""The CSV log of a training run and its progress on the terminal."""

import csv
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

COLUMNS = ("step", "stage", "seconds", "loss", "rate", "samples_per_second", "tokens_per_second")
PLAIN_LINE_SECONDS = 30.0


class Sized(Protocol):
    """A batch that knows how much it holds."""

    @property
    def samples(self) -> int:
        """Samples in the batch."""

    @property
    def tokens(self) -> int:
        """Positions in the batch, padding included."""


@dataclass(frozen=True, slots=True)
class Row:
    """One training step; `took` are its seconds, data included."""

    step: int
    stage: str
    seconds: float
    loss: float
    rate: float
    took: float
    batch: Sized

    def cells(self) -> list[object]:
        """Return the row's values in the order of COLUMNS."""
        speeds = [round(count / self.took, 1) for count in (self.batch.samples, self.batch.tokens)]
        seconds, loss = round(self.seconds, 2), round(self.loss, 5)
        return [self.step, self.stage, seconds, loss, f"{self.rate:.3e}", *speeds]


@dataclass
class Log:
    """Writes every step to a CSV file, and tells a person how far the run is."""

    file: TextIO
    console: Console
    bar: Progress
    bars: dict[str, TaskID] = field(default_factory=dict)
    told: float = 0.0

    def write(self, row: Row) -> None:
        """Append a step; the file is complete up to it."""
        csv.writer(self.file).writerow(row.cells())
        self.file.flush()

    def held_out(self, stage: str, step: int, seconds: float, loss: float) -> None:
        """Append the loss on held-out batches, as a row of the stage's name and "/held-out"."""
        csv.writer(self.file).writerow(
            [step, f"{stage}/held-out", round(seconds, 2), round(loss, 5), "", "", ""]
        )
        self.file.flush()
        self.console.print(f"{stage}: step {step}, held-out loss {loss:.4f}", highlight=False)

    def show(self, stage: str, step: int, progress: float, loss: float) -> None:
        """Move the stage's bar, or print a line now and then where there is no terminal."""
        if self.console.is_terminal:
            if stage not in self.bars:
                self.bars[stage] = self.bar.add_task(stage, total=1.0, note="")
            note = f"step {step} loss {loss:.3f}"
            self.bar.update(self.bars[stage], completed=progress, note=note)
        elif time.monotonic() - self.told > PLAIN_LINE_SECONDS:
            self.told = time.monotonic()
            line = f"{stage}: step {step}, {100 * progress:.0f} %, loss {loss:.4f}"
            self.console.print(line, highlight=False)


@contextmanager
def opened(path: Path, console: Console) -> Iterator[Log]:
    """Open a log that continues the file at `path`."""
    new = not path.exists()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with path.open("a", newline="") as file, bar:
        if new:
            csv.writer(file).writerow(COLUMNS)
        yield Log(file, console, bar)
