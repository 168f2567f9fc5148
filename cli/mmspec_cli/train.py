"""`mmspec train`: train the small pair on the drawn world."""

from pathlib import Path

import click

STAGES = ("tokenizer", "tower", "projector", "target", "draft")
# Minutes per stage on two CPU cores.
MINUTES = {"tower": 15.0, "projector": 1.0, "target": 110.0, "draft": 8.0}


@click.group()
def train() -> None:
    """Train small models (needs the extra `mmspec[train]`)."""


@train.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option(
    "--stage",
    "stages",
    type=click.Choice(("all", *STAGES)),
    multiple=True,
    default=("all",),
    help="Stage to run; may be given several times. Finished stages are not run again.",
)
@click.option("--steps", type=(click.Choice(STAGES), int), multiple=True, help="STAGE STEPS.")
@click.option("--minutes", type=(click.Choice(STAGES), float), multiple=True, help="STAGE MINUTES.")
@click.option("--recipe", type=click.Choice(("mini", "test")), default="mini", show_default=True)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
@click.option("--threads", type=int, default=0, help="CPU threads; 0 leaves PyTorch's choice.")
@click.option("--compile/--no-compile", "compiled", default=True, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def mini(
    out: Path,
    stages: tuple[str, ...],
    steps: tuple[tuple[str, int], ...],
    minutes: tuple[tuple[str, float], ...],
    recipe: str,
    device: str,
    threads: int,
    compiled: bool,
    seed: int,
) -> None:
    """Train the bundled pair: tokenizer, tower, projector, target, draft.

    Run again after an interruption, it continues. A budget in --steps gives the same weights
    every time on one machine; one in --minutes ends on time instead.
    """
    from mmspec_torch.train import main

    options = main.Options(out, recipe, device, threads, compiled, seed)
    chosen = STAGES if "all" in stages else tuple(s for s in STAGES if s in stages)
    main.train(options, chosen, MINUTES | dict(minutes), dict(steps))
