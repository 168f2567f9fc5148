"""`mmspec train`: small models on the drawn world; heads and drafts for any target."""

from pathlib import Path
from typing import Any

import click

from mmspec_cli import train_options

STAGES = ("tokenizer", "tower", "projector", "target", "draft")
# Minutes per stage on two CPU cores.
MINUTES = {"tower": 15.0, "projector": 1.0, "target": 110.0, "draft": 8.0}
BASELINES = ("pretrained", "finetuned", "llava", "language")
BUNDLED = ("msd", "eagle", "flash", "medusa", "hydra")


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


@train.command()
@click.option(
    "--kind",
    type=click.Choice((*train_options.HEADS, "draft")),
    required=True,
    help="What to train.",
)
@click.option("--student", help="With --kind draft, the draft to teach: directory, card or id.")
@train_options.data("target")
@train_options.budget
@train_options.head
@train_options.pool
@train_options.rollout
@train_options.method("kl")
@train_options.place
def distill(kind: str, student: str | None, **given: Any) -> None:
    """Train a head for a target, on the target's own answers unless --answers says otherwise.

    --kind draft teaches a small model that exists, --student, instead. The target answers first;
    its answers and hidden states are kept in --answers-dir, to be shared by heads. Run again after
    an interruption, it continues. The head is written to --out.
    """
    from mmspec_torch.train.distill import main
    from mmspec_torch.train.drafts import main as drafts

    choices = train_options.Choices(given)
    if (kind == "draft") != bool(student):
        raise click.UsageError("give --student with --kind draft, and with no other kind")
    train_options.refuse_idle(kind)
    where = choices.lessons(), given["out"], choices.place()
    if student:
        score = drafts.distill(student, choices.way(), *where)
    else:
        shape = main.Shape(given["slots"], given["queries"], given["vision"], given["ffn"])
        score = main.distill(kind, shape, choices.method(kind), choices.budget(), *where)
    click.echo(f"{where[1]}: {score.tokens_per_round:.3f} tokens per round of {given['gamma']}")


@train.command()
@click.option(
    "--only",
    "names",
    type=click.Choice(BASELINES),
    multiple=True,
    help="A draft; may be given several times. By default all four.",
)
@click.option("--from", "source", help="A Llama to start from: directory, card or id.")
@click.option("--layers", type=click.IntRange(1), default=4, show_default=True)
@click.option("--width", type=click.IntRange(2), default=1024, show_default=True)
@click.option("--heads", type=click.IntRange(1), default=8, show_default=True)
@click.option("--ffn", type=click.IntRange(1), default=2816, show_default=True)
@click.option("--positions", type=click.IntRange(16), default=2048, show_default=True)
@train_options.data("dataset")
@train_options.budget
@train_options.pool
@train_options.method("ce")
@train_options.place
def draft(names: tuple[str, ...], source: str | None, **given: Any) -> None:
    """Train small models that draft for a target, in directories of --out.

    pretrained: a Llama on text alone. finetuned: that, on the instruction text without images.
    llava: that Llama with the target's tower, projector first, then both. language: the Llama of
    that LLaVA. The budget is for each; an interrupted run continues.
    """
    from mmspec_torch.train.drafts import main
    from mmspec_torch.train.drafts.student import Shape

    choices = train_options.Choices(given)
    shape = Shape(*(given[name] for name in ("layers", "width", "heads", "ffn", "positions")))
    way, out = choices.way(), given["out"]
    names = names or (BASELINES[1:] if source else BASELINES)
    scores = main.make_baselines(names, choices.lessons(), shape, way, out, choices.place(), source)
    for name, score in scores.items():
        click.echo(f"{out / name}: {score.tokens_per_round:.3f} tokens per round")


@train.command()
@click.option(
    "--only",
    "names",
    multiple=True,
    help="A head of the recipe; may be given several times. By default the bundled five; more: "
    "msd-two-stage, msd-stage-1, msd-dataset, flash-whole.",
)
@train_options.data("target")
@train_options.budget
@train_options.place
def heads(names: tuple[str, ...], **given: Any) -> None:
    """Train the bundled heads one after another, on the same answers, each for --minutes."""
    from mmspec_torch.train.distill import main

    choices = train_options.Choices(given)
    chosen, out, place = names or BUNDLED, given["out"], choices.place()
    scores = main.train_all(chosen, choices.lessons(), choices.budget(), out, place)
    for name, score in scores.items():
        click.echo(f"{out / name}: {score.tokens_per_round:.3f} tokens per round")
