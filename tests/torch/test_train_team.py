"""Several processes take the steps of one; what they need is asked for by name."""

import sys
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import nn

from mmspec import errors
from mmspec_torch.train.distill.main import Place, opened
from mmspec_torch.train.distill.report import begun
from mmspec_torch.train.log import tensorboard
from mmspec_torch.train.team import Accelerated, Alone, accelerated


@dataclass
class Ring:
    """Two processes in one: the other's numbers are given beforehand."""

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
    Accelerated(Ring([torch.tensor([0.0, 2.0, 6.0])])).average(module.parameters())
    assert module[0].weight.grad.tolist() == [[1.0, 3.0]]
    assert module[1].weight.grad.tolist() == [[3.0]]


def test_frozen_parameters_take_no_part():
    module = nn.ModuleList([nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)])
    module[0].weight.requires_grad_(False)
    module[1].weight.grad = torch.tensor([[2.0]])
    Accelerated(Ring([torch.tensor([4.0])])).average(module.parameters())
    assert module[0].weight.grad is None
    assert module[1].weight.grad.tolist() == [[3.0]]


def test_all_processes_hear_the_first():
    assert Accelerated(Ring([torch.tensor(0.0)])).told(3.0) == 3.0
    assert Accelerated(Ring([torch.tensor(3.0)], process_index=1)).told(9.0) == 3.0
    assert Accelerated(Ring([torch.tensor(0.0)])).is_first()
    assert not Accelerated(Ring([torch.tensor(0.0)], process_index=1)).is_first()


class Follower(Alone):
    """A process that is not the first."""

    rank, size = 1, 2

    def is_first(self):
        return False


def test_of_several_processes_the_first_claims_a_directory(tmp_path):
    assert begun(tmp_path, {"rate": 1}, Follower()) == tmp_path / "training"
    assert list(tmp_path.iterdir()) == []
    begun(tmp_path, {"rate": 1}, Alone())
    with pytest.raises(errors.UsageError, match="rate is 1, but is now 2"):
        begun(tmp_path, {"rate": 2}, Follower())


def test_of_several_processes_the_first_writes_the_log(supply, tmp_path):
    machine = replace(supply.machine, team=Follower())
    follower = replace(supply, machine=machine)
    with opened(tmp_path / "out", Place(), follower) as run_log:
        run_log.held_out("toy", 1, 1.0, 1.0)
    assert not (tmp_path / "out").exists()
    with opened(tmp_path / "out", Place(), supply):
        assert (tmp_path / "out" / "log.csv").exists()


def test_what_is_not_installed_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(errors.UsageError, match="pip install accelerate"):
        accelerated()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(errors.UsageError, match="pip install tensorboard"):
        tensorboard(tmp_path)
