"""Several processes that train one model, started by `accelerate launch`.

Gradients are averaged over the processes: n of them train like one with batches n times as large.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from mmspec.errors import UsageError


class Processes:
    """All processes of a run, seen from one of them. Without an accelerator there is only one."""

    def __init__(self, accelerator: Any = None) -> None:
        self._accelerator = accelerator
        self.rank: int = accelerator.process_index if accelerator else 0
        """Index of this process; process 0 writes logs and checkpoints."""
        self.count: int = accelerator.num_processes if accelerator else 1
        self.device: torch.device | None = accelerator.device if accelerator else None
        """Device that accelerate assigned to this process; None: use `--device`."""

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its mean over all processes."""
        if not self._accelerator:
            return
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        for parameter in trained:  # this process's batch may have given some of them no gradient
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
        means = self._accelerator.reduce(parameters_to_vector(gradients), reduction="mean")
        vector_to_parameters(means, gradients)

    def from_first(self, value: float) -> float:
        """Return process 0's value in every process."""
        if not self._accelerator:
            return value
        own = torch.tensor(value if self.rank == 0 else 0.0, device=self.device)
        return float(self._accelerator.reduce(own, reduction="sum"))

    def wait(self) -> None:
        """Block until every process calls this."""
        self.from_first(0.0)


def join_processes() -> Processes:
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
    return Processes(accelerate.Accelerator())
