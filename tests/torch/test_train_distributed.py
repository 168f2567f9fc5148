"""Several processes take the steps of one."""

import sys
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import nn

from mmspec import errors
from mmspec_train.distillation.training import claim_output, open_run
from mmspec_train.run.distributed import Processes, join_processes
from mmspec_train.run.log import Position
from mmspec_train.settings import RunSettings


@dataclass
class Ring:
    """An accelerator of two processes: the other's tensors are given beforehand."""

    others: list[torch.Tensor]
    process_index: int = 0
    num_processes: int = 2
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def reduce(self, tensor, reduction):
        total = tensor + self.others.pop(0)
        return total / 2 if reduction == "mean" else total


def test_gradients_are_means_also_where_one_process_has_none():
    module = nn.ModuleList([nn.Linear(2, 1, bias=False), nn.Linear(1, 1, bias=False)])
    module[0].weight.grad = torch.tensor([[2.0, 4.0]])
    Processes(Ring([torch.tensor([0.0, 2.0, 6.0])])).average_gradients(module.parameters())
    assert module[0].weight.grad.tolist() == [[1.0, 3.0]]
    assert module[1].weight.grad.tolist() == [[3.0]]


def test_frozen_parameters_take_no_part():
    module = nn.ModuleList([nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)])
    module[0].weight.requires_grad_(False)
    module[1].weight.grad = torch.tensor([[2.0]])
    Processes(Ring([torch.tensor([4.0])])).average_gradients(module.parameters())
    assert module[0].weight.grad is None
    assert module[1].weight.grad.tolist() == [[3.0]]


def test_all_processes_get_the_value_of_the_first():
    assert Processes(Ring([torch.tensor(0.0)])).from_first(3.0) == 3.0
    assert Processes(Ring([torch.tensor(3.0)], process_index=1)).from_first(9.0) == 3.0
    assert Processes().from_first(3.0) == 3.0


class Follower(Processes):
    """A process that is not the first."""

    def __init__(self):
        super().__init__()
        self.rank, self.count = 1, 2


@pytest.fixture
def follower(data):
    """The same conversations in a process that is not the first."""
    return replace(data, machine=replace(data.machine, processes=Follower()))


def test_of_several_processes_the_first_claims_a_directory(data, follower, tmp_path):
    assert claim_output(tmp_path, {"--rate": 1}, follower) == tmp_path / "training"
    assert list(tmp_path.iterdir()) == []
    claim_output(tmp_path, {"--rate": 1}, data)
    with pytest.raises(errors.UsageError, match="rate is 1, but is now 2"):
        claim_output(tmp_path, {"--rate": 2}, follower)


@pytest.mark.parametrize("process", ["data", "follower"])
def test_of_several_processes_the_first_writes_the_log(request, process, tmp_path):
    with open_run(RunSettings(tmp_path / "out"), request.getfixturevalue(process)) as log:
        log.write_held_out(Position(1, "toy", 1.0), 1.0)
    assert (tmp_path / "out" / "log.csv").exists() == (process == "data")
    assert (tmp_path / "out").exists() == (process == "data")


def test_accelerate_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(errors.UsageError, match="pip install accelerate"):
        join_processes()
