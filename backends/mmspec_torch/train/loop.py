"""One training phase: steps, a schedule, checkpoints, looks at held-out samples and a log."""

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from mmspec import errors
from mmspec_torch.train import data
from mmspec_torch.train.exam import Exam, Mark, Standing
from mmspec_torch.train.interrupt import held
from mmspec_torch.train.log import Log, Row, Sized
from mmspec_torch.train.optimizer import Optimizer
from mmspec_torch.train.team import Alone, Team

WARM_UP_STEPS = 100
FINAL_SHARE = 0.02
HELD_OUT_BATCHES = 4
Item = TypeVar("Item", bound=Sized)


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a phase lasts: a number of steps, which is deterministic, or minutes."""

    steps: int | None = None
    minutes: float | None = None

    def progress(self, step: int, seconds: float) -> float:
        """Return the share of the budget that is spent; 1 or more ends the phase."""
        if self.steps is not None:
            return step / self.steps if self.steps else 1.0
        return seconds / (60 * self.minutes) if self.minutes else 1.0


def first_source(_step: int, _progress: float) -> int:
    """Take every batch from the first source."""
    return 0


@dataclass(frozen=True)
class Phase(Generic[Item]):
    """What is trained, on what, and at which peak learning rates.

    `module` holds every tensor that is saved; `parts` are its trained ones with their rates.
    """

    name: str
    module: nn.Module
    parts: list[tuple[nn.Module, float]]
    loss: Callable[[Item, int], Tensor]
    """Of a batch at a step; random numbers in it depend on the step alone."""
    sources: Sequence[data.Source[Item]]
    held_out: data.Source[Item]
    pick: Callable[[int, float], int] = first_source
    """Which source a step takes its batch from, by step and progress."""
    exam: Exam | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and how often: device, data processes, checkpoint interval in seconds."""

    device: torch.device
    workers: int = 1
    compiled: bool = True
    checkpoint_seconds: float = 180.0
    team: Team = field(default_factory=Alone)

    def autocast(self) -> torch.autocast:
        """Return the context of a forward pass: bfloat16 on CPU and CUDA, float32 on Metal."""
        kind = self.device.type
        return torch.autocast(kind, torch.bfloat16, enabled=kind in ("cpu", "cuda"))

    def speed_up(self, *layers: Iterable[nn.Module]) -> None:
        """Have transformer layers compiled, if the machine's compiler is to be used."""
        for layer in itertools.chain(*layers) if self.compiled else ():
            layer.compile(dynamic=True)

    def placed(self, batch: Item) -> Item:
        """Return a batch with its tensors on the device."""
        return type(batch)(*(self._moved(getattr(batch, f.name)) for f in fields(batch)))  # type: ignore[arg-type]

    def _moved(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: tensor.to(self.device) for name, tensor in value.items()}
        return value.to(self.device) if isinstance(value, Tensor) else value


@dataclass
class _Run(Generic[Item]):
    """A phase under way."""

    phase: Phase[Item]
    budget: Budget
    machine: Machine
    file: Path
    log: Log
    optimizer: Optimizer
    step: int = 0
    seconds: float = 0.0
    saved: float = 0.0
    taken: list[int] = field(default_factory=list)
    """Batches taken from each source."""
    standing: Standing = field(default_factory=Standing)
    looked: int = -1
    """The step after which held-out samples were judged last."""
    kept: int = 0
    """The step of the checkpoint."""

    @property
    def best(self) -> Path:
        """Where the best state so far is kept, if there is an exam."""
        return self.file.with_suffix(".best")

    def resume(self) -> None:
        """Continue from the phase's checkpoint, if it has one."""
        self.taken = [0] * len(self.phase.sources)
        if self.file.exists():
            state = torch.load(self.file, map_location=self.machine.device, weights_only=True)
            self.phase.module.load_state_dict(state["module"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step, self.seconds = state["step"], state["seconds"]
            self.taken = state.get("taken", [self.step])
            self.standing = Standing(**state.get("standing", {}))
            self.looked = state.get("looked", self.looked)
            self.saved, self.kept = self.seconds, self.step
        if self._tells:
            self.log.cut(self.phase.name, self.step)

    def save(self) -> None:
        """Replace the checkpoint, at once or not at all."""
        state = {
            "module": self.phase.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "taken": self.taken,
            "standing": asdict(self.standing),
            "looked": self.looked,
        }
        self._write(state, self.file)
        self.saved, self.kept = self.seconds, self.step

    def _write(self, state: dict[str, Any], file: Path) -> None:
        if self._tells:
            partial = file.with_suffix(".partial")
            torch.save(state, partial)
            partial.replace(file)

    @property
    def _tells(self) -> bool:
        """Whether this process writes the checkpoints and the log."""
        return self.machine.team.rank == 0

    def train(self) -> None:
        """Take steps until the budget is spent, or the exam sees no progress."""
        streams = [self._stream(number) for number in range(len(self.taken))]
        while (progress := self._progress()) < 1 and not self._is_over():
            began = time.perf_counter()
            number = self.phase.pick(self.step, progress)
            batch = self._next(streams[number])
            rate = self._set_rates(progress)
            loss = self._backward(batch)
            with held():
                self._step(number)
                took = time.perf_counter() - began
                self.seconds += took
                if self._tells:
                    row = Row(self.step, self.phase.name, self.seconds, loss, rate, took, batch)
                    self.log.write(row)
            if self._tells:
                self.log.show(self.phase.name, self.step, progress, loss)
        if self.looked != self.step:
            self._look()

    def stopped(self) -> str:
        """Keep the state of a run that is being ended; says what is kept."""
        self.save()
        return (
            f"{self.phase.name}: stopped after step {self.step}; the same command goes on after "
            f"step {self.kept}"
        )

    def _progress(self) -> float:
        return self.machine.team.told(self.budget.progress(self.step, self.seconds))

    def _stream(self, number: int) -> Iterator[Item]:
        team = self.machine.team
        share = data.Share(self.phase.sources[number], team.rank, team.size)
        return data.ahead(share, self.taken[number], self.machine.workers)

    def _next(self, stream: Iterator[Item]) -> Item:
        """The next batch; where it cannot be made, the state so far is kept."""
        try:
            return next(stream)
        except errors.MmspecError:
            self.save()
            raise

    def _set_rates(self, progress: float) -> float:
        scale = schedule(self.step, progress)
        self.optimizer.scale_rates(scale)
        return scale * self.optimizer.highest_rate

    def _backward(self, batch: Item) -> float:
        """Compute a batch's loss and gradients."""
        torch.manual_seed(self.step)
        with self.machine.autocast():
            loss = self.phase.loss(self.machine.placed(batch), self.step)
        value = loss.item()
        if not math.isfinite(value):
            raise errors.MmspecError(
                f"training diverged: loss {value} at step {self.step + 1} of {self.phase.name};"
                f" the last good state is {self.file}: begin anew with a lower learning rate"
            )
        loss.backward()  # type: ignore[no-untyped-call]
        self.machine.team.average(self.phase.module.parameters())
        return value

    def _step(self, source: int) -> None:
        """Take the step that gradients of a source's batch ask for."""
        self.optimizer.step()
        self.step += 1
        self.taken[source] += 1

    def _is_over(self) -> bool:
        """Look and save where it is time; returns whether training is to end."""
        exam = self.phase.exam
        spent = self.machine.team.told(self.seconds - self.saved)
        counted = exam is not None and exam.every and self.step % exam.every == 0
        is_due = spent > self.machine.checkpoint_seconds or (self.step and counted)
        if is_due and self.looked != self.step:
            self._look()
            self.save()
        return exam is not None and self.standing.is_over(exam.patience)

    @torch.no_grad()
    def _look(self) -> None:
        """Judge the state on held-out samples and keep it if it is the best."""
        exam, loss = self.phase.exam, self._held_out()
        with self.machine.autocast():
            mark = exam.look() if exam else None
        with held():
            self._note(loss, mark)

    def _note(self, loss: float, mark: Mark | None) -> None:
        """Write what a look found; nothing of one that was cut short, which is done again."""
        self.looked = self.step
        if self._tells:
            self.log.held_out(self.phase.name, self.step, self.seconds, loss)
        if mark and self._tells:
            self.log.judged(self.phase.name, self.step, self.seconds, mark)
        if mark and self.standing.note(mark):
            self._write(self.phase.module.state_dict(), self.best)

    def _held_out(self) -> float:
        batches = list(itertools.islice(self.phase.held_out.batches(0), HELD_OUT_BATCHES))
        with self.machine.autocast():
            losses = [self.phase.loss(self.machine.placed(batch), 0).item() for batch in batches]
        return sum(losses) / len(losses)


def schedule(step: int, progress: float) -> float:
    """Return the share of the peak rate: linear over the first steps, then a cosine to the end."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return min(1.0, (step + 1) / WARM_UP_STEPS) * (FINAL_SHARE + (1 - FINAL_SHARE) * cosine)


def run(phase: Phase[Any], budget: Budget, machine: Machine, file: Path, log: Log) -> None:
    """Train a phase to the end of its budget, continuing from `file` if it is there.

    With a budget in steps, an interrupted run ends at the same weights as an uninterrupted one.
    With an exam, the module ends in the best state that was seen. Raises MmspecError when the loss
    is no longer a number; `file` then holds the last good state.
    """
    phase.module.to(machine.device).requires_grad_(False)
    trained = [(part.requires_grad_(True), rate) for part, rate in phase.parts if rate]
    under_way = _Run(phase, budget, machine, file, log, Optimizer(trained))
    under_way.resume()
    with log.stopping(under_way.stopped):
        under_way.train()
        under_way.save()
    if phase.exam:
        machine.team.told(0.0)  # the others wait until process 0 has written it
        best = torch.load(under_way.best, map_location=machine.device, weights_only=True)
        phase.module.load_state_dict(best)
    phase.module.requires_grad_(False)
