"""The user's defaults of options, from a TOML file."""

import json
import os
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import click

from mmspec.ground.errors import UsageError, choice
from mmspec.ground.input_files import expand_home, read_text
from mmspec_terminal.wording import names_word

MOST_BYTES = 1_000_000


def config_file() -> Path:
    """The file of defaults: under $XDG_CONFIG_HOME, or ~/.config; it need not be there."""
    return expand_home(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "mmspec/config.toml"


def read_config() -> dict[str, Any]:
    """The file's content, empty without one; raises UsageError for what is not TOML."""
    file = config_file()
    try:
        return tomllib.loads(read_text(file, MOST_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file} cannot be read as TOML: {error}") from error


def defaults(root: click.Context, group: click.Group, name: str) -> dict[str, Any]:
    """The default map of the command `name`: the options above all tables, then its table's.

    root: the context of `group`, which has all commands. Raises UsageError for an option or a table
    that no command has, and for a value that its option does not take.
    """
    config = read_config()
    top_level = {key: value for key, value in config.items() if not isinstance(value, dict)}
    _require("table", config.keys() - top_level, group.list_commands(root))
    command = cast(click.Command, group.get_command(root, name))
    if top_level.keys() - _options(root, command):
        _require("option", top_level, _options(root, group))  # imports every command
    return {name: _defaults(root, command, top_level, config.get(name, {}))}


def source(error: str, group: click.Group, arguments: Sequence[str]) -> str:
    """` (in FILE)` if an error names an option that was not typed, and its value in the file."""
    root, flags = click.Context(group), {word.partition("=")[0] for word in arguments}
    command = group.get_command(root, arguments[0]) if arguments else None
    options, config = _options(root, command) if command else {}, {}
    with suppress(UsageError):  # a file that is no TOML has no values
        config = {} if str(config_file()) in error else read_config()
    is_named = any(
        names_word(error, key.replace("-", "_")) and names_word(error, str(value))
        for key, value in _values(config, arguments)
        if key in options and f"--{key}" not in flags
    )
    return f" (in {config_file()})" * is_named


def _values(table: Mapping[str, Any], words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The options of a table, and of the tables in it that the first words name, with values."""
    for key, value in table.items():
        if not isinstance(value, dict):
            yield key, value
        elif key in words[:1]:
            yield from _values(value, words[1:])


def _defaults(
    root: click.Context, command: click.Command, top_level: dict[str, Any], table: Any
) -> dict[str, Any]:
    if not isinstance(table, dict):
        got = f"{command.name} = {json.dumps(table, default=str)} in {config_file()}"
        raise UsageError(f"{got}: {command.name} is a command, which has a table of its options")
    if isinstance(command, click.Group):
        parts = _parts(root, command)
        _require(f"command of {command.name}", table, parts)
        return {
            name: _defaults(root, part, top_level, table.get(name, {}))
            for name, part in parts.items()
        }
    options = _options(root, command)
    _require(f"option of {command.name}", table, options)
    values = {key: value for key, value in (top_level | table).items() if key in options}
    return {options[key].name or "": _value(options[key], key, values[key]) for key in values}


def _parts(root: click.Context, group: click.Group) -> dict[str, click.Command]:
    """The commands of a group by name, all imported."""
    names = group.list_commands(root)
    return {name: part for name in names if (part := group.get_command(root, name))}


def _options(root: click.Context, command: click.Command) -> dict[str, click.Parameter]:
    """The options of a command, or of all in a group, by name without dashes."""
    if isinstance(command, click.Group):
        of_parts = [_options(root, part) for part in _parts(root, command).values()]
        return {key: option for options in of_parts for key, option in options.items()}
    return {
        flag.removeprefix("--"): param
        for param in command.params
        for flag in param.opts
        if param.expose_value and flag.startswith("--")
    }


def _require(kind: str, keys: Iterable[str], names: Collection[str]) -> None:
    """Raise UsageError for the first key that is not among the names."""
    for key in keys:
        if key not in names:
            raise choice(f"{kind} in {config_file()}", key, sorted(names))


def _value(option: click.Parameter, key: str, value: Any) -> Any:
    """A value as the command line would have it; raises UsageError for one that it would refuse."""
    is_flag, is_list = getattr(option, "is_flag", False), option.multiple or option.nargs != 1
    context = click.Context(click.Command(key))
    words = [*map(str, value)] if isinstance(value, list) else str(value)
    kinds = isinstance(value, bool), isinstance(value, list)
    try:
        if kinds != (is_flag, is_list):
            form = "true or false" if is_flag else option.make_metavar(context)
            raise click.BadParameter(f"give {'a list of ' * is_list}{form}")
        if "\0" in "".join(words):
            raise click.BadParameter("leave the zero byte out")
        option.type_cast_value(context, words)
    except click.BadParameter as error:
        got = json.dumps(value, default=str)
        raise UsageError(f"{key} = {got} in {config_file()}: {error.message}") from error
    return words
