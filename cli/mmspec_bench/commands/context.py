"""`mmspec bench context`: the cost of a token by context length."""

import json
from pathlib import Path
from typing import Any

import click

from mmspec.chat.engine import load
from mmspec.errors import UsageError
from mmspec_bench.commands.output import split
from mmspec_bench.measure.context import ContextCost, ContextReport, context
from mmspec_bench.report.plots.context import context_plot
from mmspec_bench.report.plots.style import save
from mmspec_cli.options import JSON, LOADING, PLAIN
from mmspec_cli.terminal.render import Screen

COLUMNS = ("tokens", "plain token", "verification", "drafted token", "token of a prompt")


@click.command("context")
@LOADING
@click.option("--lengths", default="", metavar="LIST", help="Tokens; up to the target's positions.")
@click.option("--gamma", type=click.IntRange(1, 16), default=5, show_default=True)
@click.option("--out", type=Path, metavar="DIR", help="For context.json and context.png.")
@JSON
@PLAIN
def context_command(
    lengths: str, gamma: int, out: Path | None, as_json: bool, plain: bool, **loading: Any
) -> None:
    """Time plain tokens, verifications, drafted and prompt tokens by context length."""
    screen = Screen(plain=plain)
    screen.progress("loading")
    engine = load(**loading)
    report = context(engine, _lengths(lengths), gamma, progress=screen.progress)
    if as_json:
        screen.json(report.as_dict())
    else:
        screen.table(COLUMNS, [_row(cost) for cost in report.costs])
    if out:
        _write(out, report)


def _lengths(text: str) -> list[int]:
    numbers = split(text)
    if not all(number.isdecimal() and int(number) > 1 for number in numbers):
        raise UsageError(f"--lengths {text}: give numbers from 2 on, with commas")
    return [int(number) for number in numbers]


def _row(cost: ContextCost) -> tuple[str, ...]:
    parts = (cost.step, cost.block, cost.draft, cost.prefill)
    cells = ("past its positions" if part is None else f"{1e3 * part:.3f} ms" for part in parts)
    return (str(cost.tokens), *cells)


def _write(out: Path, report: ContextReport) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "context.json").write_text(json.dumps(report.as_dict(), indent=1) + "\n")
        save(context_plot(report), out)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot write there: {error.strerror}") from error
