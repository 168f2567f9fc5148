"""The training command behind `mmspec train`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from mmspec import errors
from mmspec_torch.train import claim, log, loop, stages
from mmspec_torch.train.recipe import RECIPES

REMEDY = "give another --out, or the options of before"
DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True, slots=True)
class Options:
    """What a person asked for: directory, recipe's name, device's name, threads, and so on."""

    directory: Path
    recipe: str
    device: str
    threads: int
    compiled: bool
    seed: int


def train(
    options: Options,
    chosen: tuple[str, ...],
    minutes: Mapping[str, float],
    steps: Mapping[str, int],
) -> None:
    """Run the chosen stages; a budget in steps goes before one in minutes.

    Raises UsageError, before anything is made, for a stage that lacks what it starts from, and for
    a directory that was begun with another recipe or seed.
    """
    machine = loop.Machine(device(options.device), compiled=options.compiled)
    stages.check(options.directory, chosen)
    about = options.directory / "about.json"
    claim.claim(about, {"--recipe": options.recipe, "--seed": options.seed}, REMEDY)
    if options.threads:
        torch.set_num_threads(options.threads)
    budgets = {stage: loop.Budget(minutes=minutes[stage]) for stage in minutes}
    budgets |= {stage: loop.Budget(steps=steps[stage]) for stage in steps}
    with log.opened(options.directory / "log.csv", Console()) as opened:
        recipe = RECIPES[options.recipe]
        run = stages.Run(options.directory, recipe, machine, opened, options.seed)
        stages.run(run, chosen, budgets)


def device(name: str) -> torch.device:
    """Return the device of a name; "auto" is CUDA, then Metal, then the CPU.

    Raises UsageError for an unknown name.
    """
    if name not in DEVICES:
        raise errors.choice("device", name, DEVICES)
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
