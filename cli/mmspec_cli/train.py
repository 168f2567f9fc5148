"""`mmspec train`: small models on the drawn world; heads and drafts for any target."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mmspec_cli import train_choices, train_options
from mmspec_cli.interrupt import orderly_end

STAGES = ("tokenizer", "tower", "projector", "target", "draft")
# Minutes per stage on two CPU cores.
MINUTES = {"tower": 15.0, "projector": 1.0, "target": 110.0, "draft": 8.0}
BASELINES = ("pretrained", "finetuned", "llava", "language")
BUNDLED = ("msd", "eagle", "flash", "medusa", "hydra")


@click.group()
@click.pass_context
def train(context: click.Context) -> None:
    """Train heads, drafts and small models (needs the extra `mmspec[train]`)."""
    context.with_resource(orderly_end())


@train.command()
@train_options.out
@click.option(
    "--stage",
    "stages",
    type=click.Choice(("all", *STAGES)),
    multiple=True,
    default=("all",),
    help="Stage to run; may be given several times. Finished stages are not run again.",
)
@click.option(
    "--steps",
    type=(click.Choice(tuple(MINUTES)), click.IntRange(1)),
    metavar="STAGE STEPS",
    multiple=True,
    help="Steps of a stage, which repeat exactly, in place of minutes: --steps tower 500.",
)
@click.option(
    "--minutes",
    type=(click.Choice(tuple(MINUTES)), train_options.POSITIVE),
    metavar="STAGE MINUTES",
    multiple=True,
    help="Minutes of a stage; by default "
    + ", ".join(f"{stage} {minutes:g}" for stage, minutes in MINUTES.items())
    + ".",
)
@click.option(
    "--recipe",
    type=click.Choice(("mini", "test")),
    default="mini",
    show_default=True,
    help="Sizes and rates: of the bundled pair, or of a tiny one.",
)
@train_options.device
@train_options.threads
@click.option(
    "--compile/--no-compile",
    "compiled",
    default=True,
    show_default=True,
    help="Compile the layers, where there is a compiler.",
)
@train_options.seed
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
    chosen = STAGES if "all" in stages else tuple(s for s in STAGES if s in stages)
    _refuse_idle_budgets(chosen, [stage for stage, _ in (*steps, *minutes)])

    from mmspec_torch.train import main

    options = main.Options(out, recipe, device, threads, compiled, seed)
    main.train(options, chosen, MINUTES | dict(minutes), dict(steps))


def _refuse_idle_budgets(chosen: Sequence[str], stages: Sequence[str]) -> None:
    """Refuse budgets of stages that are not run, and a second one of any."""
    for stage in stages:
        if stage not in chosen:
            raise click.UsageError(f"a budget for {stage}, which is not among --stage")
        if stages.count(stage) > 1:
            raise click.UsageError(f"give {stage} one budget, in --steps or in --minutes")


@train.command()
@click.option(
    "--kind",
    type=click.Choice((*train_choices.HEADS, "draft")),
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
    if (kind == "draft") != bool(student):
        raise click.UsageError("give --student with --kind draft, and with no other kind")
    train_choices.refuse_idle(kind)
    choices = train_choices.Choices(given)

    from mmspec_torch.train.distill import main
    from mmspec_torch.train.drafts import main as drafts

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
@train_options.size("--layers", 4, "Layers of a Llama.")
@train_options.size("--width", 1024, "Its width: an even multiple of --heads.", least=2)
@train_options.size("--heads", 8, "Its attention heads.")
@train_options.size("--ffn", 2816, "Width of its MLPs.")
@train_options.size("--positions", 2048, "Positions it can take.", least=16)
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
    train_choices.refuse_unshaped(names, source)
    choices = train_choices.Choices(given)

    from mmspec_torch.train.drafts import main
    from mmspec_torch.train.drafts.student import Shape

    shape = Shape(*(given[name] for name in train_choices.SHAPE))
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
    choices = train_choices.Choices(given)

    from mmspec_torch.train.distill import main

    chosen, out, place = names or BUNDLED, given["out"], choices.place()
    scores = main.train_all(chosen, choices.lessons(), choices.budget(), out, place)
    for name, score in scores.items():
        click.echo(f"{out / name}: {score.tokens_per_round:.3f} tokens per round")
