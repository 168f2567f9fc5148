"""Settings whose fields are options: one description for the program and its command line."""

from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any

from mmspec.ground import errors

SEEDS = range(-(2**63), 2**63)
"""Seeds everywhere: 64 bits, so that no two give the same noise."""


def require_seed(name: str, value: object) -> None:
    """Raise UsageError, naming the option, unless `value` is one of SEEDS."""
    if not (isinstance(value, int) and value in SEEDS):
        remedy = f"give a whole number from {SEEDS[0]} to {SEEDS[-1]}"
        raise errors.UsageError(f"`{name}={value!r}`: {remedy}")


def is_whole(value: object, least: int) -> bool:
    """True for a whole number of at least `least`, and not for a text that holds one."""
    return isinstance(value, int) and value >= least


def convert_numbers(settings: object, *names: str) -> None:
    """Set fields of a frozen object to Python's own numbers where they are numpy's, or such."""
    for name in names:
        match getattr(settings, name):
            case Integral() as value:
                object.__setattr__(settings, name, int(value))
            case Real() as value:
                object.__setattr__(settings, name, float(value))


def next_seed(seed: int) -> int:
    """The seed after `seed`; the first one after the last."""
    return seed + 1 if seed < SEEDS[-1] else SEEDS[0]


def option(default: Any, help_: str, **metadata: Any) -> Any:
    """Declare a settings field as an option with a default, or MISSING for a required one.

    metadata: `choices` for a string; `least`, `above`, `most` for a number; `is_file` or `exists`
    for a path; `metavar` and `envvar` as click has them; what a command's own rules need.
    """
    return field(default=default, metadata={"help": help_, **metadata})


@dataclass(frozen=True)
class Settings:
    """Base of the option classes: checks seeds, and every field that has a list of choices."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            choices, value = setting.metadata.get("choices"), getattr(self, setting.name)
            if choices and value is not None and value not in choices:
                raise errors.choice(setting.name, value, choices)
            if setting.name.endswith("seed"):
                require_seed(setting.name, value)
