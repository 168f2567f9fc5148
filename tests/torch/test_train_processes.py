"""Several processes take the steps of one."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from safetensors.torch import load_file
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


TOLERANCE = 1e-4
"""Largest difference of a weight: sums have another order, in bfloat16, over all steps."""
LAUNCHERS = {
    "torchrun": ["torch.distributed.run", "--nproc-per-node", "2", "-m"],
    "accelerate": ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "-m"],
}
OPTIONS = (
    "--rate 1 --samples 24 --held-out 2 --every 12 --threads 1 --device cpu "
    "--batch 64 --answer-tokens 6"
)


def trained(target, folder, kind, launcher=None, steps=12):
    """The tensors of the head that a command trains, by name."""
    out = folder / f"{kind} {launcher} {steps}"
    places = ["--target", target, "--out", out, "--answers-dir", folder / "answers"]
    command = [*LAUNCHERS.get(launcher, ()), "mmspec_cli", "train", "distill", "--kind", kind]
    options = ["--step-samples", "4", "--steps", str(steps), *OPTIONS.split()]
    done = subprocess.run(
        [sys.executable, "-m", *command, *map(str, places), *options]
        + ["--accelerate"] * (launcher is not None),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr
    return load_file(out / "model.safetensors")


def apart(first, second):
    """The largest difference of two heads' weights."""
    assert first.keys() == second.keys()
    return max(float((first[name].float() - second[name].float()).abs().max()) for name in first)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "launcher"),
    [("eagle3", "torchrun"), ("eagle3", "accelerate"), ("eagle", "torchrun")],
)
def test_two_processes_train_the_head_of_one(kind, launcher, pair_paths, tmp_path):
    if not find_spec(LAUNCHERS[launcher][0].partition(".")[0]):
        pytest.skip(f"{launcher} is not installed")
    one = trained(pair_paths[0], tmp_path, kind)
    assert apart(one, trained(pair_paths[0], tmp_path, kind, steps=1)) > 100 * TOLERANCE
    assert apart(one, trained(pair_paths[0], tmp_path, kind, launcher)) <= TOLERANCE
