"""The options of `mmspec train`, declared from its settings, and rules for combining them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import click
from click.core import ParameterSource

from mmspec_terminal.options import Decorator, together
from mmspec_terminal.settings_options import Number
from mmspec_train.settings import (
    Budget,
    HeadMethodSettings,
    HeadShape,
    LlamaShape,
)

POSITIVE = Number(0, min_open=True)
StageAmounts = tuple[tuple[str, Any], ...]
"""Steps or minutes by stage, as they were given."""


def stage_budgets(defaults: Mapping[str, float]) -> Decorator:
    """Declare --steps and --minutes of stages; defaults: their minutes."""
    named = ", ".join(f"{stage} {minutes:g}" for stage, minutes in defaults.items())
    first, stages = next(iter(defaults)), click.Choice(tuple(defaults))
    return together(
        click.option(
            "--steps",
            type=(stages, click.IntRange(1)),
            metavar="STAGE STEPS",
            multiple=True,
            help=f"Steps of a stage, in place of its minutes, as in --steps {first} 500.",
        ),
        click.option(
            "--minutes",
            type=(stages, POSITIVE),
            metavar="STAGE MINUTES",
            multiple=True,
            help=f"Minutes of a stage. Default: {named}.",
        ),
    )


def chosen_budgets(
    defaults: Mapping[str, float],
    chosen: Sequence[str],
    steps: StageAmounts,
    minutes: StageAmounts,
) -> dict[str, Budget]:
    """Return each stage's budget.  Raises UsageError for one of a stage that is not run, or two."""
    stages = [stage for stage, _ in (*steps, *minutes)]
    for stage in stages:
        if stage not in chosen:
            raise click.UsageError(f"a budget for {stage}, which is not among --stage")
        if stages.count(stage) > 1:
            raise click.UsageError(f"give {stage} one budget, in --steps or in --minutes")
    budgets = {stage: Budget(minutes=amount) for stage, amount in (*defaults.items(), *minutes)}
    return budgets | {stage: Budget(steps=count) for stage, count in steps}


def refuse_contradictions(options: dict[str, Any]) -> None:
    """Raise UsageError for options of the current command that contradict each other."""
    if is_given("steps") and is_given("minutes"):
        raise click.UsageError("give --steps or --minutes, not both: either ends the training")
    if options["answers"] == "dataset" and is_given("temperature"):
        raise click.UsageError("--temperature has no effect on --answers dataset: nobody draws")


def refuse_without_effect(kind: str) -> None:
    """Raise UsageError for an option of `train distill` that has no effect on a kind."""
    for settings in (HeadMethodSettings, HeadShape):
        for field in fields(settings):
            kinds = field.metadata.get("kinds", (kind,))
            if kind not in kinds and is_given(field.name):
                option = f"--{field.name.replace('_', '-')}"
                allowed = ", ".join(kinds)
                raise click.UsageError(f"{option} has no effect on --kind {kind}: {allowed}")


def refuse_unused_shape(names: Sequence[str], source: str | None) -> None:
    """Raise UsageError if a shape option was given that none of the drafts `names` uses.

    source: the value of --from, a Llama whose shape replaces those options; None without it.
    """
    for field in fields(LlamaShape) if source else ():
        if is_given(field.name):
            raise click.UsageError(
                f"--{field.name} has no effect with --from: {source} has its own"
            )
    if is_given("pool") and names and not {"llava", "language"}.intersection(names):
        raise click.UsageError("--pool has no effect on drafts that see no image: llava does")


def is_given(name: str) -> bool:
    """True if an option of the current command was set."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE
