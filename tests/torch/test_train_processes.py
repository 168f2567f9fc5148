"""Two processes train the head that one process trains: real launchers, on the CPU."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from safetensors.torch import load_file

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
