"""What `--help` shows of commands with many options, and of groups."""

from typing import Any

import click

EVERYDAY = {
    *("--prompt", "--system", "--model", "--draft", "--temperature", "--max-new-tokens"),
    *("--resume", "--private", "--preview", "--details", "--json", "--plain", "--backend"),
    *("--device", "--host", "--port", "--api-key", "--help", "--help-all"),
}
"""Options that `--help` shows of a command which has `--help-all` for the others."""

ALL = "mmspec.help_all"
"""Key of a context's `meta` that is true if its help shows every option."""


class EverydayCommand(click.Command):
    """A command whose `--help` shows the options of every day, and `--help-all` shows all."""

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        help_all = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all,
            help="Show every option and exit.",
        )
        self.params.append(help_all)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of every day, or all."""
        if ctx.meta.get(ALL):
            super().format_options(ctx, formatter)
            return
        params = [param for param in self.get_params(ctx) if param.opts[-1] in EVERYDAY]
        with formatter.section("Options"):
            formatter.write_dl(
                [_line(each, ctx) for each in params if isinstance(each, click.Option)]
            )


def _line(option: click.Option, ctx: click.Context) -> tuple[str, str]:
    """An option with the first of its values, and the first sentence on it."""
    metavar = "" if option.is_flag else option.make_metavar(ctx)
    first_value = metavar.partition("|")[0] if metavar[:1].isupper() else metavar
    sentence = (option.help or "").split(". ")[0].rstrip(".")
    return f"{', '.join(option.opts)} {first_value}".rstrip(), f"{sentence}."


def _show_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


class WholeGroup(click.Group):
    """A group that shows the whole first sentence on each of its commands."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, each.get_short_help_str(limit=1000)) for name, each in commands if each]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
