"""`mmspec doctor`: what is installed, what is missing and how to get it; or a full report."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from mmspec.diagnostics.doctor import examine
from mmspec_bench.commands.output import Output
from mmspec_bench.full_report import DRAFT, MODEL, full_report, passed
from mmspec_cli.options import JSON, PLAIN
from mmspec_cli.terminal.render import Screen, in_words


@click.command()
@click.option("--full", is_flag=True, help="Pull a pair, then check, compare and measure it.")
@click.option(
    "--model", default=MODEL, show_default=True, metavar="NAME|REPO|DIR", help="For --full."
)
@click.option(
    "--draft", default=DRAFT, show_default=True, metavar="NAME|REPO|DIR", help="For --full."
)
@click.option(
    "--out",
    type=Path,
    default=Path("mmspec-doctor.json"),
    show_default=True,
    help="Where --full writes its report.",
)
@JSON
@PLAIN
def doctor(full: bool, model: str, draft: str, out: Path, as_json: bool, plain: bool) -> int:
    """Show what is installed, what is missing and the command that installs it.

    Exit status: 0, or 1 if something needed is missing or a stage of --full failed.
    """
    screen = Screen(plain=plain)
    report = full_report(model, draft, screen.progress) if full else examine()
    show = partial(_show_stages if full else _show, screen, report)
    Output(screen, out if full else None, as_json).report(report, show)
    if full and not as_json:
        screen.say(f"wrote {out}")
    return int(report["exit_code"])


def _show(screen: Screen, report: dict[str, Any]) -> None:
    memory = report["memory_bytes"]
    machine = {
        "python": report["python"],
        "system": report["platform"],
        "cores": report["cores"],
        "memory": "unknown" if memory is None else f"{memory / 2**30:.1f} GiB",
    }
    versions = {name: version or "not installed" for name, version in report["versions"].items()}
    backends = {f"backend {name}": state for name, state in report["backends"].items()}
    for title, state in ({"": machine | versions} | backends).items():
        screen.table((title, ""), [(key, in_words(value)) for key, value in state.items()])
    models = [
        (
            model["name"],
            model["kind"],
            f"on {', '.join(model['found'])}" if model["found"] else "no",
        )
        for model in report["models"]
    ]
    screen.table(("model", "kind", "here"), models)
    exact = report["exact"] or {"not measured yet": ""}
    screen.table(("exact decoding", ""), [*exact.items()])
    missing = [
        (part["what"], "yes" if part["needed"] else "no", part["fix"]) for part in report["missing"]
    ]
    if missing:
        screen.table(("missing", "needed", "get it with"), missing)
    else:
        screen.say("nothing is missing")


def _show_stages(screen: Screen, report: dict[str, Any]) -> None:
    rows = [(name, _outcome(stage)) for name, stage in report["stages"].items()]
    screen.table(("stage", "outcome"), rows)


def _outcome(stage: dict[str, Any]) -> str:
    if not stage["ok"]:
        return str(stage["error"])
    if "skipped" in stage:
        return f"skipped: {stage['skipped']}"
    return f"{'passed' if passed(stage) else 'FAILED'} in {stage['seconds']:.0f} s"
