"""The CSV log of a training run and its progress on the terminal."""

import csv
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from mmspec.errors import UsageError
from mmspec_torch.train.exam import Mark

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

COLUMNS = ("step", "stage", "seconds", "loss", "rate", "samples_per_second", "tokens_per_second")
HELD_OUT = "/held-out"
"""What follows a stage's name in rows of held-out losses."""
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

    path: Path
    file: TextIO
    """The file at `path`, opened to append."""
    console: Console
    bar: Progress
    bars: dict[str, TaskID] = field(default_factory=dict)
    told: float = 0.0
    marks: Path | None = None
    """Where looks at held-out samples are written."""
    board: "SummaryWriter | None" = None
    """TensorBoard."""

    def cut(self, stage: str, step: int) -> None:
        """Take out what was written of a stage after `step`, for that is done again."""
        for file in filter(None, (self.path, self.marks)):
            if file.exists():
                _cut(file, stage, step)

    def write(self, row: Row) -> None:
        """Append a step; the file is complete up to it."""
        csv.writer(self.file).writerow(row.cells())
        self.file.flush()
        self._plot(row.stage, {"loss": row.loss, "rate": row.rate}, row.step)

    def held_out(self, stage: str, step: int, seconds: float, loss: float) -> None:
        """Append the loss on held-out batches, as a row of the stage's name and HELD_OUT."""
        csv.writer(self.file).writerow(
            [step, f"{stage}{HELD_OUT}", round(seconds, 2), round(loss, 5), "", "", ""]
        )
        self.file.flush()
        self.say(f"{stage}: step {step}, held-out loss {loss:.4f}")
        self._plot(stage, {"held-out loss": loss}, step)

    def judged(self, stage: str, step: int, seconds: float, mark: Mark) -> None:
        """Append a look at held-out samples to `marks`, and say what it found."""
        numbers = {"value": mark.value} | mark.details
        cells = {"step": step, "stage": stage, "seconds": round(seconds, 2)}
        cells |= {name: round(value, 5) for name, value in numbers.items()}
        if self.marks:
            _append(self.marks, cells)
        told = ", ".join(f"{name} {value:.3f}" for name, value in mark.details.items())
        self.say(f"{stage}: step {step}, {told}")
        self._plot(stage, numbers, step)

    def _plot(self, stage: str, numbers: Mapping[str, float], step: int) -> None:
        if self.board:
            for name, value in numbers.items():
                self.board.add_scalar(f"{stage}/{name}", value, step)

    def show(self, stage: str, step: int, progress: float, loss: float | None = None) -> None:
        """Move the stage's bar, or print a line now and then where there is no terminal."""
        lost = "" if loss is None else f" loss {loss:.3f}"
        if self.console.is_terminal:
            if stage not in self.bars:
                self.bars[stage] = self.bar.add_task(stage, total=1.0, note="")
            self.bar.update(self.bars[stage], completed=progress, note=f"step {step}{lost}")
        elif time.monotonic() - self.told > PLAIN_LINE_SECONDS:
            self.told = time.monotonic()
            self.say(f"{stage}: step {step}, {100 * progress:.0f} %{lost}")

    def say(self, line: str) -> None:
        """Tell a person something, in one line."""
        self.console.print(line, highlight=False, soft_wrap=True)

    @contextmanager
    def stopping(self, standing: Callable[[], str]) -> Iterator[None]:
        """Where Ctrl-C or another signal ends what is done inside, say where it stands."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            self.say(standing())
            raise


def _append(file: Path, cells: Mapping[str, object]) -> None:
    new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as opened_file:
        writer = csv.writer(opened_file)
        if new:
            writer.writerow(cells)
        writer.writerow(cells.values())


def _cut(file: Path, stage: str, step: int) -> None:
    head, *lines = file.read_bytes().splitlines(keepends=True) or [b""]
    kept = [line for line in lines if not _comes_after(line, stage, step)]
    if len(kept) < len(lines):
        file.write_bytes(b"".join([head, *kept]))


def _comes_after(line: bytes, stage: str, step: int) -> bool:
    """Whether a row is of the stage and of a later step, or was torn by a kill."""
    if not line.endswith(b"\n"):
        return True
    number, name = next(csv.reader([line.decode()]))[:2]
    return name.removesuffix(HELD_OUT) == stage and int(number) > step


def tensorboard(directory: Path) -> "SummaryWriter":
    """Open TensorBoard's log.  Raises UsageError where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UsageError("--tensorboard needs it installed: pip install tensorboard") from error
    return SummaryWriter(str(directory))


@contextmanager
def opened(path: Path, console: Console, *, board: bool = False) -> Iterator[Log]:
    """Open a log that continues the file at `path`; looks go to marks.csv beside it.

    board: whether to write TensorBoard's files too; raises UsageError where it is not installed.
    """
    plots = tensorboard(path.parent / "tensorboard") if board else None
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file, _bar(console) as bar:
        if not file.tell():
            csv.writer(file).writerow(COLUMNS)
        try:
            yield Log(path, file, console, bar, marks=path.with_name("marks.csv"), board=plots)
        finally:
            if plots:
                plots.close()


@contextmanager
def unwritten() -> Iterator[Log]:
    """A log that nobody reads, of a process whose steps another one logs."""
    console = Console(quiet=True)
    nowhere = Path(os.devnull)
    with nowhere.open("a", encoding="utf-8") as file:
        yield Log(nowhere, file, console, _bar(console))


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
