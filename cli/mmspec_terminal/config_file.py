"""The user's defaults of options, from a TOML file."""

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from mmspec.ground.errors import UsageError, choice
from mmspec.ground.input_files import expand_home


def config_file() -> Path:
    """The file of defaults: under $XDG_CONFIG_HOME, or ~/.config; it need not be there."""
    return expand_home(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "mmspec/config.toml"


def read_config() -> dict[str, Any]:
    """The file's content, empty without one; raises UsageError for what is not TOML."""
    file = config_file()
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read as TOML: {error}") from error


def defaults(commands: Iterable[str]) -> dict[str, Any]:
    """The default map of each command: the options above all tables, then those of its table."""
    config = read_config()
    everywhere = {key: value for key, value in config.items() if not isinstance(value, dict)}
    return {name: _named(everywhere | config.get(name, {})) for name in commands}


def check(command: click.Command, name: str) -> None:
    """Raise UsageError if the command's table in the file names an option that it does not have."""
    options = (param for param in command.params if isinstance(param, click.Option))
    allowed = sorted({param.opts[-1].lstrip("-") for param in options})
    for key in read_config().get(name, {}):
        if key.replace("_", "-") not in allowed and not isinstance(command, click.Group):
            raise choice(f"option of {name} in {config_file()}", key, allowed)


def _named(options: dict[str, Any]) -> dict[str, Any]:
    names = {"json": "as_json"}
    return {names.get(key, key.replace("-", "_")): value for key, value in options.items()}
