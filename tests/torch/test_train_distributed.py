"""Several processes take the steps of one."""

import pytest
import torch
from torch import nn

from mmspec.ground import errors
from mmspec_train.run.machine import Processes, join_processes


class Two(Processes):
    """One of two processes, whose tensors the other's are added to, in order."""

    def __init__(self, *others, rank=0):
        super().__init__(rank, 2)
        self.others = list(others)

    def add_up(self, tensor):
        return tensor.add_(torch.tensor(self.others.pop(0), dtype=tensor.dtype))


def two_layers(*gradients):
    module = nn.ModuleList([nn.Linear(2, 1, bias=False), nn.Linear(1, 1, bias=False)])
    for layer, gradient in zip(module, gradients, strict=True):
        layer.weight.grad = gradient if gradient is None else torch.tensor([gradient])
    return module


def test_gradients_are_means_also_where_one_process_has_none():
    module = two_layers([2.0, 4.0], None)
    Two([0.0, 2.0, 6.0, 1.0, 1.0]).average_gradients(module.parameters())
    assert module[0].weight.grad.tolist() == [[1.0, 3.0]]
    assert module[1].weight.grad.tolist() == [[3.0]]


def test_a_process_that_no_launcher_started_is_refused(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with pytest.raises(errors.UsageError, match="torchrun --nproc-per-node"):
        join_processes(torch.device("cpu"))
