"""The training loop: steps, a schedule, checkpoints, evaluations and a log."""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor, nn

from mmspec.ground import errors
from mmspec_torch.device.tensor_files import read_state, save_state
from mmspec_train.run.log import Log, Position
from mmspec_train.run.machine import Item, Machine, Source, delay_signals, prefetch
from mmspec_train.run.optimizer import WARM_UP_STEPS, Optimizer, rate_share
from mmspec_train.settings import Budget

HELD_OUT_BATCHES = 4
COUNTERS = ("step", "seconds", "batches", "evaluated_step", "best_value")
"""Names of the counters of a run that a checkpoint contains."""


@dataclass(frozen=True)
class Phase(Generic[Item]):
    """One training run of a module: its loss, its data and its learning rates.

    `module` contains every tensor that is saved. `parts` are the submodules that are trained, with
    their peak learning rates.
    """

    name: str
    module: nn.Module
    parts: Sequence[tuple[nn.Module, float]]
    loss: Callable[[Item], Tensor]
    """Loss of a batch; its random numbers depend only on its place in the run."""
    sources: Sequence[Source[Item]]
    held_out: Source[Item]
    share: float = 1.0
    """Share of the budget."""
    pick: Callable[[int, float], int] = lambda number, progress: 0  # noqa: ARG005
    """Maps the number of batches so far and the progress to the next batch's source."""
    evaluate: Callable[[], dict[str, float]] | None = None
    """Returns figures for the log by name; the run ends with the weights of the highest first."""
    every: int | None = None
    """Number of steps between evaluations; None: a tenth of the budget's."""
    final_rate: float = 0.02
    """Learning rate at the end, as a share of its peak."""
    step_samples: int = 1
    """Least number of samples of a step, accumulated over batches."""
    samples: Callable[[Item], int] = lambda batch: 1  # noqa: ARG005
    """Maps a batch to its number of samples."""
    warm_up: int = WARM_UP_STEPS
    """Steps until the learning rate is at its peak."""
    muon: bool = True
    """Whether Muon trains matrices between hidden vectors, or AdamW everything."""


def run_phases(
    phases: Sequence[Phase[Any]],
    budget: Budget,
    machine: Machine,
    folder: Path,
    log: Log,
    title: str = "",
    finish: Callable[[], object] = lambda: None,
) -> None:
    """Train phases in turn, with checkpoints in `folder`; `finish` is called after each.

    The first is the latest that has a checkpoint. The log shows `title` before their names.
    """
    files = [folder / f"{phase.name or 'state'}.checkpoint" for phase in phases]
    latest = max((number for number, file in enumerate(files) if file.exists()), default=0)
    for phase, file in list(zip(phases, files, strict=True))[latest:]:
        phase = replace(phase, name=f"{title} {phase.name}".strip())
        run_phase(phase, budget.scale(phase.share), machine, file, log)
        finish()


def run_phase(
    phase: Phase[Any], budget: Budget, machine: Machine, checkpoint: Path, log: Log
) -> None:
    """Train a phase to the end of its budget, resuming from `checkpoint` if the file exists.

    With a budget in steps, a resumed run ends with the same weights as an uninterrupted one.
    With `evaluate`, the module ends with the weights of the best evaluation. Raises
    MmspecError when the loss is not finite; `checkpoint` then holds the last good state.
    """
    phase.module.to(machine.device).requires_grad_(False)
    parts = [(part.requires_grad_(True), rate) for part, rate in phase.parts if rate]
    run = _Run(phase, budget, machine, checkpoint, log, Optimizer(parts, phase.muon))
    run.resume()
    try:
        with log.say_when_stopped(run.stop):
            run.train()
            run.save()
    except torch.OutOfMemoryError as error:
        raise errors.BackendError(f"{phase.name}: memory is full: use a smaller --batch") from error
    if phase.evaluate:
        phase.module.load_state_dict(read_state(run.best_file))
    phase.module.requires_grad_(False)


@dataclass
class _Run(Generic[Item]):
    phase: Phase[Item]
    budget: Budget
    machine: Machine
    checkpoint: Path
    log: Log
    optimizer: Optimizer
    step: int = 0
    seconds: float = 0.0
    batches: list[int] = field(default_factory=list)
    """Number of batches taken from each source so far."""
    evaluated_step: int = -1
    best_value: float = float("-inf")
    save_seconds: float = 0.0
    """Training time at the last save."""

    @property
    def at(self) -> Position:
        return Position(self.step, self.phase.name, self.seconds)

    @property
    def every(self) -> int | None:
        """Steps between evaluations; None evaluates with every checkpoint, by the clock."""
        tenth = self.budget.steps and -(-self.budget.steps // 10)
        return (self.phase.every or tenth) if self.phase.evaluate else None

    @property
    def best_file(self) -> Path:
        """The file with the best state so far, written only with `evaluate`."""
        return self.checkpoint.with_suffix(".best")

    def resume(self) -> None:
        self.batches = [0] * len(self.phase.sources)
        if self.checkpoint.exists():
            state = read_state(self.checkpoint)
            if not state.keys() >= {*COUNTERS, "module", "optimizer"}:
                raise errors.MmspecError(
                    f"{self.checkpoint.parent} has an unfinished run of another version of mmspec: "
                    "begin anew in another --out"
                )
            self.phase.module.load_state_dict(state["module"])
            self.optimizer.load_state_dict(state["optimizer"])
            for name in COUNTERS:
                setattr(self, name, state[name])
        self.save_seconds = self.seconds
        self.log.drop_rows_after(self.phase.name, self.step)

    def save(self) -> None:
        """Replace the checkpoint file by the current state, atomically."""
        counters = {name: getattr(self, name) for name in COUNTERS}
        module, optimizer = self.phase.module.state_dict(), self.optimizer.state_dict()
        save_state(self.checkpoint, counters | {"module": module, "optimizer": optimizer})
        self.save_seconds = self.seconds

    def stop(self) -> str:
        """Save the state after a signal; returns what was done, for `say_when_stopped`."""
        self.save()
        return f"{self.phase.name}: stopped after step {self.step}"

    def train(self) -> None:
        """Take steps until the budget is spent."""
        maker = ThreadPoolExecutor(1)
        try:
            sources = zip(self.phase.sources, self.batches, strict=True)
            self._take_steps([prefetch(source, first, maker) for source, first in sources])
        finally:
            maker.shutdown(cancel_futures=True)
        if self.evaluated_step != self.step:
            self._evaluate()

    def _take_steps(self, streams: list[Iterator[Item]]) -> None:
        while (progress := self.budget.progress(self.step, self.seconds)) < 1:
            self._save_in_time()
            start = time.perf_counter()
            share = rate_share(self.step, progress, self.phase.final_rate, self.phase.warm_up)
            rate = self.optimizer.scale_rates(share)
            loss, counts = self._accumulate(streams, progress)
            with delay_signals():
                self.optimizer.step()
                self.step += 1
                self.batches = counts
                self.seconds += time.perf_counter() - start
                self.log.write_step(self.at, loss, rate)
            self.log.show(self.phase.name, self.step, progress, loss)

    def _accumulate(
        self, streams: list[Iterator[Item]], progress: float
    ) -> tuple[float, list[int]]:
        """Take batches until a step has its samples; return mean loss and new batch counts.

        Gradients are the mean over the step's batches.
        """
        losses, samples, counts = list[float](), 0, list(self.batches)
        while samples < self.phase.step_samples:
            # The step's batch has its own random numbers.
            torch.manual_seed(self.step + (len(losses) << 32))
            source = self.phase.pick(sum(counts), progress)
            try:
                batch = next(streams[source])
            except errors.MmspecError:  # the batch cannot be made: the same command goes on here
                self.save()
                raise
            losses.append(self._backward(batch))
            samples += self.phase.samples(batch)
            counts[source] += 1
        for parameter in self.phase.module.parameters() if len(losses) > 1 else ():
            if parameter.grad is not None:
                parameter.grad /= len(losses)
        return sum(losses) / len(losses), counts

    def _backward(self, batch: Item) -> float:
        with self.machine.autocast():
            loss = self.phase.loss(self.machine.on_device(batch))
        if loss.requires_grad:  # a batch may not reach the trained part, as text no projector
            loss.backward()  # type: ignore[no-untyped-call]
        value = loss.item()  # which waits for the device: last
        if not math.isfinite(value):
            raise errors.MmspecError(
                f"training diverged: loss {value} at step {self.step + 1} of {self.phase.name};"
                f" the last good state is {self.checkpoint}: begin anew with a lower learning rate"
            )
        return value

    def _save_in_time(self) -> None:
        """Evaluate and save when due; only evaluations at fixed steps make a run repeatable."""
        is_old = self.seconds - self.save_seconds > self.machine.checkpoint_seconds
        every = self.every
        evaluate = self.step > 0 and self.step % every == 0 if every else is_old
        if evaluate and self.evaluated_step != self.step:
            self._evaluate()
            self.save()
        elif is_old:
            self.save()

    @torch.no_grad()
    def _evaluate(self) -> None:
        """Log the held-out loss and `evaluate`'s figures; save the weights whose first is best."""
        evaluate = self.phase.evaluate
        batches = list(itertools.islice(self.phase.held_out(0), HELD_OUT_BATCHES))
        with self.machine.autocast():
            losses = [self.phase.loss(self.machine.on_device(b)).item() for b in batches]
            figures = evaluate() if evaluate else {}
        loss = sum(losses) / len(losses)
        with delay_signals():
            self.evaluated_step = self.step
            self.log.write_evaluation(self.at, {"held-out loss": loss, **figures})
            value = next(iter(figures.values()), float("-inf"))
            if value > self.best_value:
                self.best_value = value
                save_state(self.best_file, self.phase.module.state_dict())
