"""`mmspec doctor`: what is installed, what is missing and how to get it."""

from typing import Any

import click

from mmspec.diagnostics.doctor import examine
from mmspec_terminal.options import JSON, PLAIN
from mmspec_terminal.render import Screen, in_words


@click.command()
@JSON
@PLAIN
def doctor(*, as_json: bool, plain: bool) -> int:
    """Show what is installed, what is missing and the command that installs it.

    Exit status: 0, or 1 if something needed is missing.
    """
    screen = Screen(plain=plain)
    report = examine()
    if as_json:
        screen.json(report)
    else:
        _show(screen, report)
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
    exact = report["exact"] or {"not measured yet: `mmspec calibrate` does": ""}
    screen.table(("exact decoding", ""), [*exact.items()])
    missing = [
        (part["what"], "yes" if part["needed"] else "no", part["fix"]) for part in report["missing"]
    ]
    if missing:
        screen.table(("missing", "needed", "get it with"), missing)
    else:
        screen.say("nothing is missing")
