"""`mmspec doctor`: what is installed, what is missing and how to get it."""

from typing import Any

import click

from mmspec.diagnostics.doctor import examine
from mmspec.diagnostics.recommendation import Recommendation
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
    _show_recommendations(screen, report["recommendations"])
    exact = report["exact"] or {"not measured yet": ""}
    screen.table(("exact decoding", ""), [*exact.items()])
    missing = [
        (part["what"], "yes" if part["needed"] else "no", part["fix"]) for part in report["missing"]
    ]
    if missing:
        screen.table(("missing", "needed", "get it with"), missing)
    else:
        screen.say("nothing is missing")


def _show_recommendations(screen: Screen, every: list[dict[str, Any]]) -> None:
    recommendations = [
        Recommendation(**{key: each[key] for key in each if key != "pays"}) for each in every
    ]
    titles = ("for this memory", "in", "draft in 4 bits", "takes", "expected", "why")
    screen.table(titles, [_recommendation_row(each) for each in recommendations])


def _recommendation_row(each: Recommendation) -> tuple[str, ...]:
    size = f"{each.bytes / 1e9:.1f} GB"
    return each.target, f"{each.bits} bits", each.draft or "none", size, each.gain, each.reason
