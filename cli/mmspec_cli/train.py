"""`mmspec train`: trains heads and drafts for any target, and a Llama to see."""

import os
from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from typing import Any

import click

from mmspec.ground.errors import UsageError, missing_package
from mmspec_terminal.help_pages import WholeGroup
from mmspec_terminal.options import is_typed
from mmspec_terminal.render import Screen
from mmspec_terminal.settings_options import choose, options_of
from mmspec_train.settings import (
    BASELINES,
    HEADS,
    Budget,
    DataSettings,
    HeadMethodSettings,
    HeadShape,
    LlamaShape,
    MethodSettings,
    RunSettings,
    TargetSettings,
)


class TrainGroup(WholeGroup):
    """The commands of training, which need the extra `mmspec[train]`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; raises BackendError if a package that training needs is missing."""
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers' own, of weights
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            raise missing_package("mmspec train", error, "train") from error


@click.group(cls=TrainGroup)
def train() -> None:
    """Train heads, drafts and targets (needs the extra `mmspec[train]`)."""


@train.command()
@options_of(TargetSettings, Budget)
def target(**options: Any) -> None:
    """Let a Llama see: join it with a LLaVA's tower and train the projector, then the Llama too.

    It learns from the synthetic world. The same command continues an interrupted run, one with a
    larger budget a finished run.
    """
    budget = _budget(options)
    from mmspec_train.targets.train_target import train_target

    train_target(choose(TargetSettings, options), budget)


@train.command()
@click.option(
    "--kind", type=click.Choice((*HEADS, "draft")), required=True, help="Head or draft to train."
)
@click.option("--student", help="Draft to train, with --kind draft: directory, card or hub id.")
@click.option(
    "--plan",
    "gpu",
    metavar="GPU",
    help="Train nothing: print the memory, disk and hours that this takes, computed from the "
    "target's config.json and the data. rtx-4090, a100, h100 or h200, by their datasheets.",
)
@options_of(DataSettings, Budget, HeadShape, HeadMethodSettings, RunSettings)
def distill(kind: str, student: str | None, gpu: str | None, **options: Any) -> None:
    """Train a head for a target, on the target's own answers or, by --answers, on the data's.

    --kind draft instead trains an existing small model, --student. The target's answers and hidden
    states are computed first and stored in --answers-dir, which several heads can share. The
    same command continues an interrupted run. The result is written to --out.
    """
    if (kind == "draft") != bool(student):
        raise click.UsageError("give --student with --kind draft, and with no other kind")
    for field in (*fields(HeadMethodSettings), *fields(HeadShape)):
        kinds = field.metadata.get("kinds", (kind,))
        if kind not in kinds:
            _refuse_without_effect([field.name], f"on --kind {kind}: {', '.join(kinds)}")
    common = _common_settings(options)
    if gpu:
        if student:
            raise click.UsageError("--plan computes a head: leave out --student")
        from mmspec_train.heads.plan import plan

        head = choose(HeadShape, options), choose(HeadMethodSettings, options)
        click.echo("\n".join(plan(gpu, kind, (*head, common[0]), common[1])))
        return

    from mmspec_train.distillation.training import distill
    from mmspec_train.drafts.train_drafts import draft_trainee
    from mmspec_train.heads.train_heads import new_trainee

    if student:
        method = choose(MethodSettings, options)
        score = distill(partial(draft_trainee, student, method), *common)
    else:
        head = choose(HeadShape, options), choose(HeadMethodSettings, options)
        score = distill(partial(new_trainee, kind, *head), *common)
    rate = f"{score.tokens_per_round:.3f} tokens per round"
    Screen().say(f"{options['out']}: {rate}, {len(score.guesses)} drafted")


@train.command()
@click.option(
    "--only",
    "names",
    type=click.Choice(BASELINES),
    multiple=True,
    help="Draft to train; may be given several times. Default: all four.",
)
@click.option("--from", "source", help="Llama to start from: directory, card or hub id.")
@options_of(
    LlamaShape, DataSettings, Budget, MethodSettings, RunSettings, answers="dataset", loss="ce"
)
def draft(names: tuple[str, ...], source: str | None, **options: Any) -> None:
    """Train small models that draft for a target, in directories of --out.

    pretrained: a Llama on text alone. finetuned: that Llama on the instruction text without images.
    llava: that Llama with the target's tower, first the projector, then both. language: the Llama
    of that LLaVA. The budget applies to each; an interrupted run continues.
    """
    if source:
        shape = [field.name for field in fields(LlamaShape)]
        _refuse_without_effect(shape, f"with --from: {source} has its own")
    if names and not {"llava", "language"}.intersection(names):
        _refuse_without_effect(["pool"], "on drafts that see no image: llava does")
    common = _common_settings(options)
    from mmspec_train.drafts.train_drafts import train_baselines

    scores = train_baselines(
        names,
        source,
        choose(LlamaShape, options),
        choose(MethodSettings, options),
        *common,
    )
    for name, score in scores.items():
        Screen().say(f"{options['out'] / name}: {score.tokens_per_round:.3f} tokens per round")


def _common_settings(options: dict[str, Any]) -> tuple[Budget, DataSettings, RunSettings]:
    """The settings of any student; raises UsageError for options that contradict each other."""
    if options["answers"] == "dataset":
        _refuse_without_effect(["temperature"], "on --answers dataset: nobody draws")
    return _budget(options), choose(DataSettings, options), choose(RunSettings, options)


def _budget(options: dict[str, Any]) -> Budget:
    """The budget in steps or minutes, a typed one before the file's; raises UsageError for two."""
    names = [name for name in ("steps", "minutes") if options[name] is not None]
    names = list(filter(is_typed, names)) or names
    if len(names) > 1:
        values = " and ".join(f"`{name}={options[name]}`" for name in names)
        raise UsageError(f"{values}: give one of them, for either ends the training")
    return choose(Budget, {name: options[name] for name in names})


def _refuse_without_effect(names: Iterable[str], condition: str) -> None:
    """Raise UsageError for the first of these options of the current command that was set."""
    for name in filter(is_typed, names):
        raise click.UsageError(f"--{name.replace('_', '-')} has no effect {condition}")
