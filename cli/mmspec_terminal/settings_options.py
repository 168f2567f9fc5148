"""Options of a command that are declared by the fields of settings."""

import math
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from mmspec.ground.settings import Settings
from mmspec_terminal.options import Decorator, together

Kind = TypeVar("Kind", bound=Settings)


class Number(click.FloatRange):
    """A number range that also excludes nan."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """`value` as a number; fails for nan."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


def options_of(*settings: type[Settings], **defaults: Any) -> Decorator:
    """Declare the fields of settings as options, each name once; `defaults` replace theirs."""
    all_fields = (field for group in settings for field in fields(group))
    by_name = {field.name: field for field in all_fields if "help" in field.metadata}
    return together(
        *(_option(field, defaults.get(name, field.default)) for name, field in by_name.items())
    )


def _option(field: Field[Any], default: Any) -> Decorator:
    name, help_ = f"--{field.name.replace('_', '-')}", field.metadata["help"]
    if isinstance(default, bool):
        switch = f"{name}/--no{name[1:]}" if default else name
        flag = None if default else True
        return click.option(switch, is_flag=flag, default=default, help=help_)
    if default is MISSING:  # click takes any default, also None, for a given value
        return click.option(name, type=_type(field), required=True, help=help_)
    return click.option(
        name,
        type=_type(field),
        multiple=isinstance(default, tuple),
        default=default,
        show_default=None if default != "" else False,
        metavar=field.metadata.get("metavar"),
        envvar=field.metadata.get("envvar"),
        help=help_,
    )


def _type(field: Field[Any]) -> Any:
    """click's type for a field; for `int | None`, that of int."""
    limits = field.metadata
    kind = next(iter(get_args(field.type)), field.type)
    if "choices" in limits:
        return click.Choice(limits["choices"])
    if kind is Path:
        is_file = "is_file" in limits
        exists = is_file or "exists" in limits
        return click.Path(exists=exists, file_okay=is_file, dir_okay=not is_file, path_type=Path)
    if kind is int and limits.keys() & {"least", "most"}:
        return click.IntRange(limits.get("least"), limits.get("most"))
    if kind is float:
        least = limits.get("above", limits.get("least"))
        return Number(least, limits.get("most"), min_open="above" in limits)
    return kind


def choose(settings: type[Kind], options: dict[str, Any]) -> Kind:
    """Settings from a command's options; raises UsageError if one is invalid."""
    names = (field.name for field in fields(settings))
    return settings(**{name: options[name] for name in names if name in options})
