"""The options of `mmspec train`, declared from its settings, and rules for combining them."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import click
from click.core import ParameterSource

from mmspec_terminal.settings_options import Number
from mmspec_train.settings import (
    HeadMethodSettings,
    HeadShape,
    LlamaShape,
)

POSITIVE = Number(0, min_open=True)


def refuse_contradictions(options: dict[str, Any]) -> None:
    """Raise UsageError for options of the current command that contradict each other."""
    refuse_two_budgets()
    if options["answers"] == "dataset" and is_given("temperature"):
        raise click.UsageError("--temperature has no effect on --answers dataset: nobody draws")


def refuse_two_budgets() -> None:
    """Raise UsageError for a budget in steps and one in minutes."""
    if is_given("steps") and is_given("minutes"):
        raise click.UsageError("give --steps or --minutes, not both: either ends the training")


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
