"""Generates docs/cli.md from the commands: `python tests/cli_reference.py > docs/cli.md`."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import cleandoc
from textwrap import fill

import click

from mmspec_cli.main import cli

WIDTH = 100
"""Number of text columns on the page."""

INTRODUCTION = """\
# Commands and options

Written from the commands by `make docs-cli`. An option is described at the first command that takes
it; `mmspec COMMAND --help` shows those of one command, of `chat`, `generate` and `serve` the ones
of every day, and `--help-all` all. `mmspec --version` shows the version. A command exits with 0
when it is done, with 2 after one line on stderr about what to change, with 130 after Ctrl-C, with
143 after SIGTERM, with 129 after SIGHUP, as when the terminal is closed, and with 141 if the reader
of its output is gone, as after `| head`. Where another status is possible, its text says so.
"""

MANY = 5
"""Number of options shared with an earlier command above which only that one is named."""

Help = tuple[str, str]
"""An option's syntax and its help."""


def reference() -> str:
    """The text of docs/cli.md."""
    described: dict[str, list[Help]] = {}
    sections = []
    for context in _commands(cli, "mmspec"):
        sections.append(_section(context, described))
        described[context.command_path] = _options(context)
    return "\n".join([INTRODUCTION, *sections])


def _commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Yield every command that is not a group, in a context with its full name."""
    context = command.context_class(command, parent, info_name=name, **command.context_settings)
    if not isinstance(command, click.Group):
        yield context
        return
    for part in command.list_commands(context):
        subcommand = command.get_command(context, part)
        if subcommand is not None:
            yield from _commands(subcommand, part, context)


def _options(context: click.Context) -> list[Help]:
    options = (option for option in context.command.params if isinstance(option, click.Option))
    records = (option.get_help_record(context) for option in options)
    return [record for record in records if record is not None]


def _section(context: click.Context, described: Mapping[str, Sequence[Help]]) -> str:
    """A command's usage, help and new options, and the names of options described elsewhere."""
    command, options = context.command, _options(context)
    usage = " ".join(command.collect_usage_pieces(context)).removeprefix("[OPTIONS]").strip()
    text = " ".join(cleandoc(command.help or "").split())
    earlier_options = {option for earlier in described.values() for option in earlier}
    lines = [f"## {context.command_path}", "", f"`{usage}`: {text}" if usage else text]
    lines += [""] * bool(options)
    lines += [f"- `{each[0]}`: {each[1]}" for each in options if each not in earlier_options]
    repeated = [option for option in options if option in earlier_options]
    if repeated:
        lines.append(f"- As above: {', '.join(_names(repeated, described))}.")
    return "".join(f"{_wrapped(line)}\n" for line in lines)


def _names(options: Sequence[Help], described: Mapping[str, Sequence[Help]]) -> Iterator[str]:
    """Yield the names of options; in place of all of an earlier command's, that command's name."""
    left = list(options)
    for name, earlier in described.items():
        if len(earlier) > MANY and set(earlier) <= set(left):
            yield f"every option of `{name}`"
            left = [option for option in left if option not in earlier]
    yield from (f"`{name.split()[0]}`" for name, _ in left)


def _wrapped(text: str) -> str:
    return fill(text, WIDTH, subsequent_indent="  " * text.startswith("- "), break_on_hyphens=False)


if __name__ == "__main__":
    click.echo(reference(), nl=False)
