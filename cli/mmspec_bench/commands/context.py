"""`mmspec bench context`: the cost of a token by context length."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from mmspec.errors import UsageError
from mmspec_bench.commands.output import loaded, show_report, split
from mmspec_bench.measure.context import ContextCost, context
from mmspec_cli.options import JSON, LOADING, OUT, PLAIN
from mmspec_cli.terminal.render import Screen

COLUMNS = ("tokens", "plain token", "verification", "drafted token", "token of a prompt")


@click.command("context")
@LOADING
@click.option("--lengths", default="", metavar="LIST", help="Tokens; up to the target's positions.")
@click.option("--gamma", type=click.IntRange(1, 16), default=5, show_default=True)
@OUT
@JSON
@PLAIN
def context_command(
    lengths: str, gamma: int, out: Path | None, as_json: bool, plain: bool, **loading: Any
) -> None:
    """Time plain tokens, verifications, drafted and prompt tokens by context length."""
    screen = Screen(plain=plain)
    report = context(loaded(screen, loading), _lengths(lengths), gamma, progress=screen.progress)
    table = partial(screen.table, COLUMNS, [_row(cost) for cost in report.costs])
    show_report(screen, report.as_dict(), out, table, as_json=as_json)


def _lengths(text: str) -> list[int]:
    numbers = split(text)
    if not all(number.isdecimal() and int(number) > 1 for number in numbers):
        raise UsageError(f"--lengths {text}: give numbers from 2 on, with commas")
    return [int(number) for number in numbers]


def _row(cost: ContextCost) -> tuple[str, ...]:
    parts = (cost.step, cost.block, cost.draft, cost.prefill)
    cells = ("past its positions" if part is None else f"{1e3 * part:.3f} ms" for part in parts)
    return (str(cost.tokens), *cells)
