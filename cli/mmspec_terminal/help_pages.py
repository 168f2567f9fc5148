"""How `--help` is laid out: the options of people who chat first, the others under titles."""

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
        records = {
            param.opts[-1].lstrip("-"): record
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx))
        }
        groups = {"Options": _first(records, _required(self))}
        for title, names in TITLES.items():
            groups[title] = [records.pop(name) for name in names if name in records]
        groups["Other options"] = list(records.values())
        for title, options in groups.items():
            if options:
                with formatter.section(title):
                    formatter.write_dl(options)


def _required(command: click.Command) -> list[str]:
    return [param.opts[-1].lstrip("-") for param in command.params if param.required]


def _first(records: dict[str, Record], required: list[str]) -> list[Record]:
    """Take the first options out of `records`."""
    wanted = dict.fromkeys([*required, *FIRST])
    names = [name for name in wanted if name in records][: MOST_FIRST - 1]
    return [records.pop(name) for name in (*names, "help")]


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
