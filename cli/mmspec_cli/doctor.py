"""`mmspec doctor`: what is here, what is missing, how to get it; or a whole trial."""

import json
from pathlib import Path
from typing import Any

import click

from mmspec.doctor import Examination, examine
from mmspec.trial import DRAFT, MODEL, passed, trial
from mmspec_cli.options import JSON, PLAIN
from mmspec_cli.render import Screen


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
    """Say what is installed, what is missing and the command that gets it.

    Exit status: 0, or 1 where something needed is missing or a stage of --full failed.
    """
    screen = Screen(plain=plain)
    return _full(screen, model, draft, out, as_json) if full else _brief(screen, as_json)


def _brief(screen: Screen, as_json: bool) -> int:
    found = examine()
    if as_json:
        screen.json(found.as_dict() | {"exit_code": found.exit_code})
    else:
        _show(screen, found)
    return found.exit_code


def _show(screen: Screen, found: Examination) -> None:
    versions = ((name, version or "not installed") for name, version in found.versions.items())
    memory = "unknown" if found.memory_bytes is None else f"{found.memory_bytes / 2**30:.1f} GiB"
    machine = [("python", found.python), ("system", found.platform)]
    machine += [("cores", str(found.cores)), ("memory", memory)]
    screen.table(("", ""), [*machine, *versions])
    for name, told in found.backends.items():
        screen.table((f"backend {name}", ""), [(key, _shown(value)) for key, value in told.items()])
    here = [(each["name"], each["kind"], _shown(each["found"] or "no")) for each in found.models]
    screen.table(("model", "kind", "here"), here)
    if found.missing:
        rows = [(each.what, "yes" if each.needed else "no", each.fix) for each in found.missing]
        screen.table(("missing", "needed", "get it with"), rows)
    else:
        screen.say("nothing is missing")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {each}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _full(screen: Screen, model: str, draft: str, out: Path, as_json: bool) -> int:
    report = trial(model, draft, screen.progress)
    out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if as_json:
        screen.json(report)
    else:
        rows = [(name, _outcome(told)) for name, told in report["stages"].items()]
        screen.table(("stage", "outcome"), rows)
        screen.say(f"wrote {out}")
    return 0 if all(passed(told) for told in report["stages"].values()) else 1


def _outcome(told: dict[str, Any]) -> str:
    if not told["ok"]:
        return str(told["error"])
    if "skipped" in told:
        return f"skipped: {told['skipped']}"
    return f"{'passed' if passed(told) else 'FAILED'} in {told['seconds']:.0f} s"
