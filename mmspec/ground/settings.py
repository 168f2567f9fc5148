"""Settings whose fields are options: one description for the program and its command line."""

from dataclasses import dataclass, field, fields
from typing import Any

from mmspec.ground import errors


def option(default: Any, help_: str, **metadata: Any) -> Any:
    """Declare a settings field as an option with a default, or MISSING for a required one.

    metadata: `choices` for a string; `least`, `above`, `most` for a number; `is_file` or `exists`
    for a path; `metavar` and `envvar` as click has them; what a command's own rules need.
    """
    return field(default=default, metadata={"help": help_, **metadata})


@dataclass(frozen=True)
class Settings:
    """Base of the option classes: checks every field that has a list of choices."""

    def __post_init__(self) -> None:
        for declared in fields(self):
            allowed, value = declared.metadata.get("choices"), getattr(self, declared.name)
            if allowed and value is not None and value not in allowed:
                raise errors.choice(declared.name, value, allowed)
