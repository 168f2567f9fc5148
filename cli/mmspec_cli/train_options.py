"""The options of `mmspec train`, declared from its settings, and rules for combining them."""

import math
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from click.core import ParameterSource

from mmspec_terminal.options import Decorator, together
from mmspec_train.recipes import DEFAULT, PAPERS
from mmspec_train.settings import (
    DraftSettings,
    HeadMethodSettings,
    HeadShape,
    LlamaShape,
    Settings,
)

Chosen = TypeVar("Chosen", bound=Settings)


class Number(click.FloatRange):
    """A number range that also excludes nan."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """`value` as a number; fails for nan."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


PLAN = click.option(
    "--plan",
    "gpu",
    metavar="GPU",
    help="Train nothing: print the memory, disk and hours that this takes on a GPU, computed from "
    "the target's config.json and the data. rtx-4090, a100, h100 or h200 by their datasheets; or "
    "rates that you measured, as mine=130,0.9,24 (TFLOP/s, TB/s, GB).",
)
POSITIVE = Number(0, min_open=True)


def options_of(*settings: type[Settings], **defaults: Any) -> Decorator:
    """Declare the fields of settings as options, each name once; `defaults` replace theirs."""
    declared = {field.name: field for group in settings for field in fields(group)}
    return together(
        *(_option(field, defaults.get(name, field.default)) for name, field in declared.items())
    )


def _option(field: Field[Any], default: Any) -> Decorator:
    name, help_ = f"--{field.name.replace('_', '-')}", field.metadata["help"]
    if default is MISSING:
        return click.option(name, type=_type(field), required=True, help=help_)
    if isinstance(default, bool):
        switch = f"{name}/--no-{field.name}" if default else name
        flag = None if default else True
        return click.option(switch, is_flag=flag, default=default, help=help_)
    several = isinstance(default, tuple)
    return click.option(name, type=_type(field), multiple=several, default=default, help=help_)


def _type(field: Field[Any]) -> Any:
    """click's type for a field; for `int | None`, that of int."""
    limits = field.metadata
    kind = next(iter(get_args(field.type)), field.type)
    if "choices" in limits:
        return click.Choice(limits["choices"])
    if kind is Path:
        is_file = "is_file" in limits
        return click.Path(exists=is_file, file_okay=is_file, dir_okay=not is_file, path_type=Path)
    if kind is int and limits.keys() & {"least", "most"}:
        return click.IntRange(limits.get("least"), limits.get("most"))
    if kind is float:
        least = limits.get("above", limits.get("least"))
        return Number(least, limits.get("most"), min_open="above" in limits)
    return kind


def choose(settings: type[Chosen], options: dict[str, Any]) -> Chosen:
    """Settings from a command's options; raises UsageError if one is invalid."""
    return settings(**{field.name: options[field.name] for field in fields(settings)})


def refuse_contradictions(options: dict[str, Any]) -> None:
    """Raise UsageError for options of the current command that contradict each other."""
    if is_given("steps") and is_given("minutes"):
        raise click.UsageError("give --steps or --minutes, not both: either ends the training")
    if options["answers"] == "dataset" and is_given("temperature"):
        raise click.UsageError("--temperature has no effect on --answers dataset: nobody draws")


def apply_recipe(options: dict[str, Any], *, heads: bool) -> None:
    """Replace options that were not given by those of `--recipe`.

    heads: True if a head is trained, not a draft.  Raises UsageError for the other's recipe.
    """
    name = options["recipe"]
    if name == DEFAULT:
        return
    if PAPERS[name].trains_heads != heads:
        allowed = [other for other, recipe in PAPERS.items() if recipe.trains_heads == heads]
        what = "a head" if heads else "a draft"
        raise click.UsageError(f"--recipe {name} does not train {what}: use {', '.join(allowed)}")
    own = PAPERS[name].options.items()
    options |= {key: value for key, value in own if key in options and not is_given(key)}


def refuse_without_effect(kind: str) -> None:
    """Raise UsageError for an option of `train distill` that has no effect on a kind."""
    for settings in (HeadMethodSettings, HeadShape, DraftSettings):
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
