"""`mmspec bench context`: the cost of a token by context length."""

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from mmspec.chat.options import Options
from mmspec.ground.errors import UsageError
from mmspec_bench.commands.output import Output, loaded, show_tables, split, with_output
from mmspec_bench.measure.context import ContextCost, context
from mmspec_bench.report.table import Table
from mmspec_terminal.help_pages import GroupedCommand
from mmspec_terminal.options import EXACT, LOADING

COLUMNS = ("tokens", "plain token", "verification", "drafted token", "token of a prompt")
NOTE = (
    "Tokens: those in the cache. Plain token: a target forward over one row. Verification: over "
    "gamma + 1 rows. Drafted token: of one view. Token of a prompt: in prefill. Medians."
)
"""What the columns mean."""


@click.command("context", cls=GroupedCommand)
@LOADING
@click.option("--lengths", default="", metavar="LIST", help="Tokens; up to the target's positions.")
@click.option(
    "--gamma", type=click.IntRange(1, 16), default=5, show_default=True, help="Drafted tokens."
)
@EXACT
@with_output
def context_command(output: Output, lengths: str, gamma: int, exact: str, **loading: Any) -> None:
    """Time plain tokens, verifications, drafted and prompt tokens by context length."""
    screen = output.screen
    options, lengths_asked = Options(exact=exact), _lengths(lengths)
    engine = loaded(screen, loading, options)
    report = context(engine, lengths_asked, gamma, exact, progress=screen.progress)
    table = Table("Milliseconds by context", COLUMNS, [_row(cost) for cost in report.costs], NOTE)
    output.report(asdict(report), partial(show_tables, screen, [table], "speed"))


def _lengths(text: str) -> list[int]:
    numbers = split(text)
    if not all(number.isdecimal() and int(number) > 1 for number in numbers):
        raise UsageError(f"--lengths {text}: give numbers from 2 on, with commas")
    return [int(number) for number in numbers]


def _row(cost: ContextCost) -> tuple[str, ...]:
    parts = (cost.step, cost.block, cost.draft, cost.prefill)
    cells = ("past its positions" if part is None else f"{1e3 * part:.3f}" for part in parts)
    return (str(cost.tokens), *cells)
