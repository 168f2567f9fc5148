"""How `--help` is laid out: the options of people who chat first, the others under titles."""

from typing import Any

import click

FIRST = (
    *(
        "methods",
        "suite",
        "data",
        "prompt",
        "model",
        "draft",
        "temperature",
        "max-new-tokens",
        "resume",
        "private",
    ),
    *("preview", "port", "details", "json"),
)
"""Options that a command's help begins with, after those that are required, if it has them."""

EVERYDAY = {*FIRST, "host", "api-key", "backend", "device", "plain"}
"""Options that `--help` shows of a command which has `--help-all` for the others."""

MOST_FIRST = 8
"""Options under the first title, --help included."""

TITLES = {
    "Models": (
        "draft",
        "captioner",
        "captions",
        "backend",
        "device",
        "dtype",
        "quantize",
        "threads",
    ),
    "Images and clips": ("max-image-tokens", "fps", "max-frames"),
    "Drafting": (
        *("drafting", "gamma", "weights", "adaptive", "adaptive-rule", "adaptive-window"),
        *("adaptive-carry", "pool", "overflow", "tree", "tree-width", "tree-nodes", "exact"),
    ),
    "Sampling": (
        *("temperature", "top-p", "top-k", "sampling-seed", "max-new-tokens", "repeat-limit"),
    ),
    "Data": (
        *("suite", "tasks", "prompts", "count", "limit", "turns", "shard", "skip-bad", "data"),
        *("images", "weight", "samples", "held-out", "seed", "answers", "answers-dir"),
        *("answer-tokens", "answer-rows", "cache-gb"),
    ),
    "Sizes": ("layers", "width", "heads", "ffn", "positions", "slots", "queries", "vision"),
    "Training": (
        *("recipe", "loss", "rate", "projector-rate", "final-rate", "schedule"),
        *("step-samples", "batch", "steps", "minutes", "patience", "every", "token-weight"),
        *("feature-weight", "decay", "rollout", "noise", "workers", "accelerate"),
    ),
    "Output": (*("json", "plain", "details", "preview", "markdown", "accepted", "private", "out"),),
}
"""Options under each other title, in this order."""

Record = tuple[str, str]
"""An option's syntax and its help."""


class GroupedCommand(click.Command):
    """A command whose options are shown under titles."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each once."""
        records = _records(self, ctx)
        groups = {"Options": _first(records, _required(self))}
        for title, names in TITLES.items():
            groups[title] = [records.pop(name) for name in names if name in records]
        groups["Other options"] = list(records.values())
        for title, options in groups.items():
            if options:
                with formatter.section(title):
                    formatter.write_dl(options)


class EverydayCommand(GroupedCommand):
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
        records = _records(self, ctx)
        wanted = dict.fromkeys((*_required(self), *FIRST, *records))
        last = ("help", "help-all")
        shown = [name for name in wanted if name in records and name in EVERYDAY]
        with formatter.section("Options"):
            formatter.write_dl([records[name] for name in (*shown, *last)])


ALL = "mmspec.help_all"
"""Key of a context's `meta` that is true if its help shows every option."""


def _show_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


def _records(command: click.Command, ctx: click.Context) -> dict[str, Record]:
    """The help of a command's options by their names."""
    return {
        param.opts[-1].lstrip("-"): record
        for param in command.get_params(ctx)
        if isinstance(param, click.Option) and (record := param.get_help_record(ctx))
    }


def _required(command: click.Command) -> list[str]:
    return [param.opts[-1].lstrip("-") for param in command.params if param.required]


def _first(records: dict[str, Record], required: list[str]) -> list[Record]:
    """Take the first options out of `records`."""
    wanted = dict.fromkeys([*required, *FIRST])
    last = [name for name in ("help", "help-all") if name in records]
    names = [name for name in wanted if name in records][: MOST_FIRST - len(last)]
    return [records.pop(name) for name in (*names, *last)]


class WholeGroup(click.Group):
    """A group that shows the whole first sentence on each of its commands."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [
            (name, command.get_short_help_str(limit=1000))
            for name, command in commands.items()
            if command
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
