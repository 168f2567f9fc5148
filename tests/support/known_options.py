"""Whether the program takes a command, without running it."""

import click

from mmspec_cli.main import cli


def _named(words):
    """The context of the command that the first words name, and the other words."""
    command, context = cli, click.Context(cli, info_name="mmspec")
    while isinstance(command, click.Group) and words:
        command = command.get_command(context, words[0])
        assert command, f"no command {words[0]}"
        context, words = click.Context(command, parent=context, info_name=words[0]), words[1:]
    return context, words


def parse(words):
    """The values of a command's options by name; raises click.UsageError as the program does."""
    context, words = _named(words)
    return context.command.make_context(context.info_name, list(words)).params


def unknown_options(words):
    """The options that the named command does not have; asserts that there is such a command."""
    context, words = _named(words)
    known = set(context.help_option_names)
    for parameter in context.command.params:
        known |= {*parameter.opts, *parameter.secondary_opts}
    return [word for word in words if word.startswith("-") and word not in {*known, "-"}]
