"""Several processes that train one model: each takes its share of the batches.

Gradients are averaged, so that n processes take the steps of one with batches n times as large.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from mmspec.errors import UsageError


class Accelerator(Protocol):
    """What is used of accelerate's class of that name."""

    process_index: int
    num_processes: int
    device: torch.device

    def reduce(self, tensor: Tensor, reduction: str) -> Tensor:
        """Combine tensors of all processes by "sum" or "mean"."""
        ...


class Team(Protocol):
    """The processes of a run as one of them sees them."""

    rank: int
    """This process's number; 0 writes logs and checkpoints."""
    size: int

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace gradients by their means over all processes."""
        ...

    def told(self, value: float) -> float:
        """Return process 0's value in every process."""
        ...

    def is_first(self) -> bool:
        """Whether this is process 0, once all have come this far."""
        ...


class Alone:
    """One process."""

    rank = 0
    size = 1

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Leave them as they are."""

    def told(self, value: float) -> float:
        """Return it."""
        return value

    def is_first(self) -> bool:
        """It is."""
        return True


class Accelerated:
    """Processes that `accelerate launch` started."""

    def __init__(self, accelerator: Accelerator) -> None:
        """Take part."""
        self._accelerator = accelerator
        self.rank, self.size = accelerator.process_index, accelerator.num_processes

    @property
    def device(self) -> torch.device:
        """This process's own."""
        return self._accelerator.device

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Reduce all gradients as one vector, those that this process's batch gave none for too."""
        trained = [p for p in parameters if p.requires_grad]
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in trained if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        mean = self._accelerator.reduce(flat, reduction="mean")
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, torch.split(mean, sizes), strict=True):
            gradient.copy_(part.view_as(gradient))

    def told(self, value: float) -> float:
        """Reduce a sum to which the others add nothing."""
        own = torch.tensor(value if self.rank == 0 else 0.0, device=self._accelerator.device)
        return float(self._accelerator.reduce(own, reduction="sum"))

    def is_first(self) -> bool:
        """Wait for the others in a sum of nothing."""
        self.told(0.0)
        return self.rank == 0


def accelerated() -> Accelerated:
    """Join the processes that `accelerate launch` started.

    Raises UsageError where accelerate is not installed.
    """
    try:
        accelerate: Any = import_module("accelerate")
    except ImportError as error:
        raise UsageError(
            "training in several processes needs accelerate: pip install accelerate, then "
            "accelerate launch --num-processes N -m mmspec_cli train ... --accelerate"
        ) from error
    return Accelerated(accelerate.Accelerator())
