"""`mmspec bench context`: what a token costs as the context grows."""

import json
from pathlib import Path
from typing import Any

import click

from mmspec.bench.context import ContextCost, ContextReport, context
from mmspec.bench.report.plots.context import context_plot
from mmspec.bench.report.plots.style import Look, save
from mmspec.engine import load
from mmspec.errors import UsageError
from mmspec_cli.options import JSON, LOADING, PLAIN
from mmspec_cli.render import Screen


@click.command("context")
@LOADING
@click.option("--lengths", default="", metavar="LIST", help="Tokens; up to the target's positions.")
@click.option("--gamma", type=click.IntRange(1, 16), default=5, show_default=True)
@click.option("--out", type=Path, metavar="DIR", help="For context.json and context.png.")
@JSON
@PLAIN
def context_command(
    lengths: str, gamma: int, out: Path | None, as_json: bool, plain: bool, **where: Any
) -> None:
    """Time plain tokens, verifications, drafted and prompt tokens by context length."""
    screen = Screen(plain=plain)
    screen.progress("loading")
    engine = load(**where)
    report = context(engine, _lengths(lengths), gamma, progress=screen.progress)
    if as_json:
        screen.json(report.as_dict())
    else:
        screen.table(_HEADS, [_row(each) for each in report.costs])
    if out:
        _write(out, report)


_HEADS = ("tokens", "plain token", "verification", "drafted token", "token of a prompt")


def _lengths(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() and int(word) > 1 for word in words):
        raise UsageError(f"--lengths {text}: give numbers from 2 on, with commas")
    return [int(word) for word in words]


def _row(cost: ContextCost) -> tuple[str, ...]:
    parts = (cost.step, cost.block, cost.draft, cost.prefill)
    shown = ("past its positions" if each is None else f"{1e3 * each:.3f} ms" for each in parts)
    return (str(cost.tokens), *shown)


def _write(out: Path, report: ContextReport) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "context.json").write_text(json.dumps(report.as_dict(), indent=1) + "\n")
        save(context_plot(report), Look.of(()), out)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot write there: {error.strerror}") from error
