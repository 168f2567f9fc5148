"""`mmspec doctor`: what is installed, what is missing and how to get it; or a full report."""

import json
from pathlib import Path
from typing import Any

import click

from mmspec.diagnostics.doctor import Examination, examine
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
    return _full(screen, model, draft, out, as_json) if full else _brief(screen, as_json)


def _brief(screen: Screen, as_json: bool) -> int:
    state = examine()
    if as_json:
        screen.json(state.as_dict() | {"exit_code": state.exit_code})
    else:
        _show(screen, state)
    return state.exit_code


def _show(screen: Screen, state: Examination) -> None:
    versions = ((name, version or "not installed") for name, version in state.versions.items())
    memory = "unknown" if state.memory_bytes is None else f"{state.memory_bytes / 2**30:.1f} GiB"
    machine = [("python", state.python), ("system", state.platform)]
    machine += [("cores", str(state.cores)), ("memory", memory)]
    screen.table(("", ""), [*machine, *versions])
    for name, description in state.backends.items():
        rows = [(key, in_words(value)) for key, value in description.items()]
        screen.table((f"backend {name}", ""), rows)
    models = [
        (model["name"], model["kind"], in_words(model["found"] or "no")) for model in state.models
    ]
    screen.table(("model", "kind", "here"), models)
    if state.missing:
        missing = [(part.what, "yes" if part.needed else "no", part.fix) for part in state.missing]
        screen.table(("missing", "needed", "get it with"), missing)
    else:
        screen.say("nothing is missing")


def _full(screen: Screen, model: str, draft: str, out: Path, as_json: bool) -> int:
    report = full_report(model, draft, screen.progress)
    out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if as_json:
        screen.json(report)
    else:
        rows = [(name, _outcome(stage)) for name, stage in report["stages"].items()]
        screen.table(("stage", "outcome"), rows)
        screen.say(f"wrote {out}")
    return 0 if all(passed(stage) for stage in report["stages"].values()) else 1


def _outcome(stage: dict[str, Any]) -> str:
    if not stage["ok"]:
        return str(stage["error"])
    if "skipped" in stage:
        return f"skipped: {stage['skipped']}"
    return f"{'passed' if passed(stage) else 'FAILED'} in {stage['seconds']:.0f} s"
