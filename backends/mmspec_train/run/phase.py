"""A training phase and the machine that runs it."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from mmspec_train.recipes import OURS, UpdateRule
from mmspec_train.run.distributed import Processes
from mmspec_train.run.prefetch import Source

Item = TypeVar("Item")
"""A batch: a dataclass of tensors and of values that stay on the host."""


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """When and how to evaluate, and when to stop training."""

    evaluate: Callable[[], dict[str, float]]
    """Returns figures for the log by name; the best state has the highest first figure."""
    patience: int = 0
    """Training ends after this many evaluations without a new best value; 0: it never does."""
    every: int | None = None
    """Number of steps between evaluations; None evaluates with every checkpoint, by the clock."""


@dataclass(frozen=True)
class Phase(Generic[Item]):
    """One training run of a module: its loss, its data and its learning rates.

    `module` contains every tensor that is saved. `parts` are the submodules that are trained, with
    their peak learning rates.
    """

    name: str
    module: nn.Module
    parts: list[tuple[nn.Module, float]]
    loss: Callable[[Item, int], Tensor]
    """Loss of a batch at a step; its random numbers depend only on its place in the run."""
    sources: Sequence[Source[Item]]
    held_out: Source[Item]
    pick: Callable[[int, float], int] = lambda number, progress: 0  # noqa: ARG005
    """Maps the number of batches so far and the progress to the next batch's source."""
    early_stopping: EarlyStopping | None = None
    rule: UpdateRule = OURS
    samples: Callable[[Item], int] = lambda batch: 1  # noqa: ARG005
    """Maps a batch to its number of samples, of which a step takes `rule.batch`."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The device, processes and checkpoint interval of a run."""

    device: torch.device
    workers: int = 1
    """Number of background processes that make batches: 0 or 1."""
    compiled: bool = True
    checkpoint_seconds: float = 180.0
    processes: Processes = field(default_factory=Processes)

    def autocast(self) -> torch.autocast:
        """Return the autocast context: bfloat16 on CPU and CUDA, float32 on Metal."""
        kind = self.device.type
        return torch.autocast(kind, torch.bfloat16, enabled=kind in ("cpu", "cuda"))

    def compile(self, *layers: Iterable[nn.Module]) -> None:
        """Compile transformer layers if `compiled` is set."""
        for layer in itertools.chain(*layers) if self.compiled else ():
            layer.compile(dynamic=True)

    def on_device(self, batch: Item) -> Item:
        """Return the batch with its tensors moved to the device."""
        values = (getattr(batch, field.name) for field in fields(batch))  # type: ignore[arg-type]
        return type(batch)(*(v.to(self.device) if isinstance(v, Tensor) else v for v in values))


def pick_device(name: str) -> torch.device:
    """Return the device called `name`; "auto" picks CUDA, else Metal, else the CPU."""
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
